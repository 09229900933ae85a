/* Counts packets by flow. Compiled by tests, with what a case leaves out or gets wrong. */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

struct flow {
	__be32 saddr;
	__u8 proto;
	__be16 port;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
#ifdef NO_ROOM
	__uint(max_entries, 0);
#else
	__uint(max_entries, 16);
#endif
	__type(key, struct flow);
	__type(value, __u64);
} flows SEC(".maps");

SEC("xdp")
int count(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = data;
	struct iphdr *ip = (void *)(eth + 1);
	struct flow f;
	__u64 *n;

	if ((void *)(eth + 1) > end)
		return XDP_PASS;
	if (eth->h_proto != bpf_htons(ETH_P_IP))
		return XDP_PASS;
#ifndef NO_CHECK
	if ((void *)(ip + 1) > end)
		return XDP_PASS;
#endif
#ifndef NO_MEMSET
	__builtin_memset(&f, 0, sizeof(f));
#endif
	f.saddr = ip->saddr;
	f.proto = ip->protocol;
#ifndef NO_PORT
	f.port = 0;
#endif
	n = bpf_map_lookup_elem(&flows, &f);
	if (n)
		*n += 1;
	return XDP_PASS;
}

SEC("tc")
int classify(struct __sk_buff *skb)
{
	return skb->len;
}

char _license[] SEC("license") = "GPL";
