/* Does a bit of everything that a test may want to look at. */
#include <stdbool.h>
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

enum mode { MODE_WATCH, MODE_COUNT = 7 };

struct flow {
	__be32 saddr;
	__be16 ether_type;
	__u8 mac[6];
};

struct counts {
	__u64 packets;
	__s32 balance;
	enum mode mode;
	char note[8];
	unsigned int low : 4, high : 12;
	bool seen;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16);
	__type(key, struct flow);
	__type(value, struct counts);
} flows SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 4);
	__type(key, __u32);
	__type(value, __u64);
} lengths SEC(".maps");

struct inner {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, __u32);
} first SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 2);
	__type(key, __u32);
	__array(values, struct inner);
} outer SEC(".maps") = { .values = { (void *)&first } };

struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, 4);
	__type(key, __u32);
	__type(value, __u32);
} ports SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, 8);
	__type(value, __u32);
} sizes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} events SEC(".maps");

const volatile __u16 limit = 100;
__u32 total;

SEC("xdp")
int kinds(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = data;
	__u32 size = end - data, zero = 0, one = 1, *count;
	struct counts *known;
	struct flow f = {};
	__u64 *length;
	void *inner;

	if ((void *)(eth + 1) > end)
		return XDP_ABORTED;
	total++;
	bpf_map_push_elem(&sizes, &size, 0);
	length = bpf_map_lookup_elem(&lengths, &one);
	if (length)
		*length += size;
	inner = bpf_map_lookup_elem(&outer, &zero);
	if (inner) {
		count = bpf_map_lookup_elem(inner, &one);
		if (count)
			*count += 1;
	}
	__builtin_memcpy(f.mac, eth->h_source, 6);
	f.ether_type = eth->h_proto;
	f.saddr = bpf_htonl(0x0a000001);
	known = bpf_map_lookup_elem(&flows, &f);
	if (known) {
		known->packets++;
		known->balance -= 5;
		known->high += 1;
		known->seen = true;
		bpf_ringbuf_output(&events, &f, 4, 0);
		eth->h_dest[0] = 0xee;
		return XDP_TX;
	}
	if (size > limit)
		return bpf_redirect_map(&ports, 2, XDP_DROP);
	return XDP_PASS;
}

SEC("tc")
int other(struct __sk_buff *skb)
{
	return 0;
}

char _license[] SEC("license") = "GPL";
