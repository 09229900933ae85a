/* Programs that must be refused: the faults that authors make. Compiled at test time. */
#include <stddef.h>
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <bpf/bpf_helpers.h>

struct key {
	__u32 addr;
	__u8 proto;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, struct key);
	__type(value, __u64);
	__uint(max_entries, 64);
} flows SEC(".maps");

__u64 seen[16];

SEC("xdp")
int no_check(struct xdp_md *ctx)
{
	struct ethhdr *eth = (void *)(long)ctx->data;

	return eth->h_proto ? XDP_PASS : XDP_DROP;
}

SEC("xdp")
int checked_too_little(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct iphdr *ip = data + sizeof(struct ethhdr);

	if (data + sizeof(struct ethhdr) > end)
		return XDP_DROP;
	return ip->protocol == 17 ? XDP_DROP : XDP_PASS;
}

SEC("xdp")
int no_null_check(struct xdp_md *ctx)
{
	struct key key = {};
	__u64 *n;

	__builtin_memset(&key, 0, sizeof(key));
	key.addr = ctx->ingress_ifindex;
	n = bpf_map_lookup_elem(&flows, &key);
	*n += 1;
	return XDP_PASS;
}

SEC("xdp")
int padding(struct xdp_md *ctx)
{
	struct key key;
	__u64 *n;

	key.addr = ctx->ingress_ifindex;
	key.proto = 17;
	n = bpf_map_lookup_elem(&flows, &key);
	return n ? XDP_PASS : XDP_DROP;
}

SEC("xdp")
int index_too_large(struct xdp_md *ctx)
{
	__u32 i = ctx->rx_queue_index;

	if (i > 16)
		return XDP_DROP;
	seen[i] += 1;
	return XDP_PASS;
}

SEC("xdp")
int endless(struct xdp_md *ctx)
{
	volatile __u32 *n = (void *)seen;

	while (*n != 7)
		;
	return XDP_PASS;
}

SEC("xdp")
int stale(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = data;

	if ((void *)(eth + 1) > end)
		return XDP_DROP;
	if (bpf_xdp_adjust_head(ctx, 4))
		return XDP_DROP;
	return eth->h_proto ? XDP_PASS : XDP_DROP;
}

SEC("xdp")
int address(struct xdp_md *ctx)
{
	seen[0] = ctx->data;
	return XDP_PASS;
}

char _license[] SEC("license") = "GPL";
