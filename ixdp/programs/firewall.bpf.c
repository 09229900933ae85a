// SPDX-License-Identifier: MIT OR Apache-2.0
// Drops packets from IPv4 addresses in the map `blocked` (and counts them there), and those to UDP
// port `closed_port`; passes the rest. Both are set from outside: the map at any time, the port
// before loading.
#include "parse.h"
#include <linux/udp.h>

const volatile __u16 closed_port = 9;

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __be32);
	__type(value, __u64);
} blocked SEC(".maps");

SEC("xdp")
int firewall(struct xdp_md *ctx)
{
	struct cursor c = packet(ctx);
	struct iphdr *ip;
	struct udphdr *udp;
	__be32 source;
	__u64 *hits;

	if (parse_ethernet(&c) != bpf_htons(ETH_P_IP))
		return XDP_PASS;
	ip = c.at;
	if ((void *)(ip + 1) > c.end)
		return XDP_PASS;
	source = ip->saddr;
	hits = bpf_map_lookup_elem(&blocked, &source);
	if (hits) {
		__sync_fetch_and_add(hits, 1);
		return XDP_DROP;
	}
	/* Only the first fragment has ports; options before them are not looked through. */
	if (ip->protocol != IPPROTO_UDP || ip->ihl != 5 || (ip->frag_off & bpf_htons(0x1fff)))
		return XDP_PASS;
	udp = (void *)(ip + 1);
	if ((void *)(udp + 1) > c.end)
		return XDP_PASS;
	return udp->dest == bpf_htons(closed_port) ? XDP_DROP : XDP_PASS;
}

char _license[] SEC("license") = "Dual MIT/GPL";
