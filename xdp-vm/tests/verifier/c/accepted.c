/* Programs that must be accepted, as authors write them; compiled at test time. */
#include <stdbool.h>
#include <stddef.h>
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/tcp.h>
#include <linux/udp.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

struct flow {
	__u32 saddr, daddr;
	__u16 sport, dport;
	__u8 proto;
};

struct count {
	__u64 packets, bytes;
};

struct vlan {
	__be16 tci, proto;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, __u64);
	__uint(max_entries, 256);
} counters SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, struct count);
	__uint(max_entries, 4);
} percpu SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, struct flow);
	__type(value, struct count);
	__uint(max_entries, 1024);
} flows SEC(".maps");

struct guarded {
	__u32 kind;
	struct inner {
		__u32 before;
		struct bpf_spin_lock lock;
	} inner;
	struct count count;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, __u32);
	__type(value, struct guarded);
	__uint(max_entries, 16);
} totals SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} records SEC(".maps");

const volatile __u32 limit = 64;
const volatile bool count_bytes = true;
__u64 seen[16];
__u64 total;

static __always_inline void *vlans(void *p, void *end, __be16 *proto)
{
#pragma unroll
	for (int i = 0; i < 4; i++) {
		struct vlan *v = p;

		if (*proto != bpf_htons(ETH_P_8021Q) && *proto != bpf_htons(ETH_P_8021AD))
			break;
		if ((void *)(v + 1) > end)
			return NULL;
		*proto = v->proto;
		p = v + 1;
	}
	return p;
}

SEC("xdp")
int parse(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = data;
	struct flow key = {};
	struct count first = { .packets = 1 }, *c;

	if ((void *)(eth + 1) > end)
		return XDP_DROP;
	__be16 proto = eth->h_proto;
	void *p = vlans(eth + 1, end, &proto);
	if (!p || proto != bpf_htons(ETH_P_IP))
		return XDP_PASS;
	struct iphdr *ip = p;
	if ((void *)(ip + 1) > end || ip->ihl < 5)
		return XDP_DROP;
	void *l4 = (void *)ip + ip->ihl * 4;
	key.saddr = ip->saddr;
	key.daddr = ip->daddr;
	key.proto = ip->protocol;
	if (ip->protocol == IPPROTO_TCP) {
		struct tcphdr *tcp = l4;

		if ((void *)(tcp + 1) > end)
			return XDP_DROP;
		key.sport = tcp->source;
		key.dport = tcp->dest;
	} else if (ip->protocol == IPPROTO_UDP) {
		struct udphdr *udp = l4;

		if ((void *)(udp + 1) > end)
			return XDP_DROP;
		key.sport = udp->source;
		key.dport = udp->dest;
	}
	c = bpf_map_lookup_elem(&flows, &key);
	if (!c) {
		first.bytes = end - data;
		bpf_map_update_elem(&flows, &key, &first, BPF_NOEXIST);
		return XDP_PASS;
	}
	__sync_fetch_and_add(&c->packets, 1);
	if (count_bytes)
		__sync_fetch_and_add(&c->bytes, end - data);
	return c->packets > limit ? XDP_DROP : XDP_PASS;
}

SEC("xdp")
int extension_headers(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct ipv6hdr *ip6 = data + sizeof(struct ethhdr);

	if ((void *)(ip6 + 1) > end)
		return XDP_DROP;
	__u8 next = ip6->nexthdr;
	__u8 *p = (void *)(ip6 + 1);
#pragma clang loop unroll(disable)
	for (int i = 0; i < 8; i++) {
		if (next != IPPROTO_HOPOPTS && next != IPPROTO_ROUTING && next != IPPROTO_DSTOPTS)
			break;
		if ((void *)(p + 2) > end)
			return XDP_DROP;
		next = p[0];
		p += (p[1] + 1) * 8;
	}
	__u32 key = next;
	__u64 *n = bpf_map_lookup_elem(&counters, &key);
	if (n)
		*n += 1;
	return XDP_PASS;
}

SEC("xdp")
int payload_checksum(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	__u16 *p = data + sizeof(struct ethhdr);
	__u32 sum = 0;

#pragma clang loop unroll(disable)
	for (int i = 0; i < 750; i++) {
		if ((void *)(p + 1) > end)
			break;
		sum += *p++;
	}
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	__sync_fetch_and_add(&total, (__u16)~sum);
	seen[sum & 15] += 1;
	return sum == 0xffff ? XDP_PASS : XDP_DROP;
}

static __attribute__((noinline)) int ttl(struct iphdr *ip, void *end)
{
	if ((void *)(ip + 1) > end)
		return -1;
	if (ip->ttl <= 1)
		return -1;
	ip->ttl -= 1;
	return ip->ttl;
}

static __attribute__((noinline)) void swap(struct ethhdr *eth)
{
	__u8 mac[ETH_ALEN];

	__builtin_memcpy(mac, eth->h_source, ETH_ALEN);
	__builtin_memcpy(eth->h_source, eth->h_dest, ETH_ALEN);
	__builtin_memcpy(eth->h_dest, mac, ETH_ALEN);
}

SEC("xdp")
int functions(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = data;

	if ((void *)(eth + 1) > end)
		return XDP_DROP;
	if (ttl((void *)(eth + 1), end) < 0)
		return XDP_PASS;
	swap(eth);
	return XDP_TX;
}

SEC("xdp")
int grow_and_fill(struct xdp_md *ctx)
{
	if (bpf_xdp_adjust_head(ctx, -(int)sizeof(struct vlan)))
		return XDP_ABORTED;
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	if (data + sizeof(struct ethhdr) + sizeof(struct vlan) > end)
		return XDP_DROP;
	__builtin_memmove(data, data + sizeof(struct vlan), 2 * ETH_ALEN);
	struct vlan *v = data + 2 * ETH_ALEN;
	v->tci = bpf_htons(ctx->rx_queue_index & 0xfff);
	v->proto = bpf_htons(ETH_P_8021Q);
	return XDP_TX;
}

SEC("xdp")
int options(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct tcphdr *tcp = data + sizeof(struct ethhdr) + sizeof(struct iphdr);
	__u16 mss = 0;

	if ((void *)(tcp + 1) > end)
		return XDP_DROP;
	__u8 *p = (void *)(tcp + 1), *stop = (void *)tcp + tcp->doff * 4;
#pragma clang loop unroll(disable)
	for (int i = 0; i < 20; i++) {
		if ((void *)(p + 2) > end || p + 2 > stop)
			break;
		if (p[0] == 0)
			break;
		if (p[0] == 1) {
			p++;
			continue;
		}
		if (p[0] == 2 && (void *)(p + 4) <= end) {
			mss = p[2] << 8 | p[3];
			break;
		}
		if (p[1] < 2)
			break;
		p += p[1];
	}
	__u32 key = 3;
	struct count *c = bpf_map_lookup_elem(&percpu, &key);
	if (c) {
		c->packets += 1;
		c->bytes += mss;
	}
	bpf_printk("mss %d of queue %d", mss, ctx->rx_queue_index);
	return XDP_PASS;
}

SEC("xdp")
int table_on_the_stack(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	__u8 histogram[64] = {};
	__u8 *p = data;

#pragma clang loop unroll(disable)
	for (int i = 0; i < 64; i++) {
		if ((void *)(p + 1) > end)
			break;
		histogram[*p & 63] += 1;
		p++;
	}
	__u32 most = 0;
#pragma clang loop unroll(disable)
	for (int i = 0; i < 64; i++)
		if (histogram[i] > histogram[most & 63])
			most = i;
	return most & 1 ? XDP_DROP : XDP_PASS;
}

SEC("xdp")
int under_a_lock(struct xdp_md *ctx)
{
	__u32 key = ctx->rx_queue_index;
	struct guarded *g = bpf_map_lookup_elem(&totals, &key);
	__u64 length = ctx->data_end - ctx->data;

	if (!g) {
		struct guarded fresh = { .kind = 1 };

		bpf_map_update_elem(&totals, &key, &fresh, BPF_NOEXIST);
		return XDP_PASS;
	}
	bpf_spin_lock(&g->inner.lock);
	g->count.packets += 1;
	g->count.bytes += length;
	bpf_spin_unlock(&g->inner.lock);
	return XDP_PASS;
}

struct record {
	__u32 queue;
	__u8 start[60];
};

SEC("xdp")
int in_a_record(struct xdp_md *ctx)
{
	struct record *r = bpf_ringbuf_reserve(&records, sizeof(*r), 0);

	if (!r)
		return XDP_ABORTED;
	r->queue = ctx->rx_queue_index;
	if (bpf_xdp_load_bytes(ctx, 0, r->start, sizeof(r->start))) {
		bpf_ringbuf_discard(r, 0);
		return XDP_PASS;
	}
	bpf_ringbuf_submit(r, r->queue == 3 ? BPF_RB_FORCE_WAKEUP : 0);
	return XDP_PASS;
}

char _license[] SEC("license") = "GPL";
