/* Sums over the payload, in the ways that programs compute them. */
#include "common.h"

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 8);
	__type(key, __u32);
	__type(value, __u64);
} sums SEC(".maps");

static __always_inline void keep(__u32 key, __u64 value)
{
	__u64 *sum = bpf_map_lookup_elem(&sums, &key);

	if (sum)
		*sum += value;
}

/* A pointer that moves, checked each round. */
SEC("xdp")
int by_word(struct xdp_md *ctx)
{
	struct packet p = packet_of(ctx);
	__u16 *word = p.data;
	__u64 sum = 0;

	for (int i = 0; i < 757; i++) {
		if ((void *)(word + 1) > p.end)
			break;
		sum += *word++;
	}
	keep(0, sum);
	return folded(sum) & 1 ? XDP_PASS : XDP_DROP;
}

/* An index that is bounded by the length. */
SEC("xdp")
int by_index(struct xdp_md *ctx)
{
	struct packet p = packet_of(ctx);
	__u64 length = p.end - p.data;
	__u32 sum = 0;

	if (length > 1514)
		length = 1514;
	for (__u32 i = 0; i < length; i++) {
		__u8 *byte = p.data + i;

		if ((void *)(byte + 1) > p.end)
			break;
		sum = sum * 31 + *byte;
	}
	keep(1, sum);
	return sum & 3;
}

/* UDP with its pseudo header, as long as it says, odd lengths too. */
SEC("xdp")
int of_udp(struct xdp_md *ctx)
{
	struct packet p = packet_of(ctx);
	struct ethhdr *eth = p.data;
	struct iphdr *ip = (void *)(eth + 1);
	struct udphdr *udp;
	__u16 length, *word;
	__u64 sum;

	if ((void *)(ip + 1) > p.end || eth->h_proto != bpf_htons(ETH_P_IP))
		return XDP_PASS;
	if (ip->protocol != IPPROTO_UDP || ip->ihl < 5)
		return XDP_PASS;
	udp = (void *)ip + ip->ihl * 4;
	if ((void *)(udp + 1) > p.end)
		return XDP_PASS;
	length = bpf_ntohs(udp->len);
	if (length < sizeof(*udp) || length > 1480)
		return XDP_DROP;
	sum = (ip->saddr >> 16) + (ip->saddr & 0xffff) + (ip->daddr >> 16) + (ip->daddr & 0xffff);
	sum += bpf_htons(IPPROTO_UDP) + udp->len;
	word = (void *)udp;
	for (int i = 0; i < 740; i++) {
		if (i * 2 + 1 >= length || (void *)(word + 1) > p.end)
			break;
		sum += *word++;
	}
	if (length & 1 && (void *)word + 1 <= p.end)
		sum += *(__u8 *)word;
	keep(2, (__u16)~folded(sum));
	return (__u16)~folded(sum) ? XDP_DROP : XDP_PASS;
}

/* By the helper, a block at a time. */
SEC("xdp")
int by_blocks(struct xdp_md *ctx)
{
	struct packet p = packet_of(ctx);
	__s64 sum = 0;

	for (int i = 0; i < 23; i++) {
		void *block = p.data + i * 64;

		if (block + 64 > p.end)
			break;
		sum = bpf_csum_diff(0, 0, block, 64, sum);
		if (sum < 0)
			return XDP_ABORTED;
	}
	keep(3, folded(sum));
	return XDP_PASS;
}

/* Of what is copied out of the packet. */
SEC("xdp")
int of_a_copy(struct xdp_md *ctx)
{
	__u8 copy[64];
	__u32 sum = 0;

	if (bpf_xdp_load_bytes(ctx, 2, copy, sizeof(copy)))
		return XDP_DROP;
	for (__u32 i = 0; i < sizeof(copy); i++)
		sum += copy[i];
	keep(4, sum);
	return sum & 3;
}

/* Adjusted for a TTL that was decremented (RFC 1624). */
SEC("xdp")
int adjusted(struct xdp_md *ctx)
{
	struct packet p = packet_of(ctx);
	struct ethhdr *eth = p.data;
	struct iphdr *ip = (void *)(eth + 1);
	__u32 sum;

	if ((void *)(ip + 1) > p.end || eth->h_proto != bpf_htons(ETH_P_IP) || ip->ttl <= 1)
		return XDP_PASS;
	sum = ip->check;
	sum += bpf_htons(0x0100);
	ip->check = sum + (sum >= 0xffff);
	ip->ttl--;
	return XDP_TX;
}
