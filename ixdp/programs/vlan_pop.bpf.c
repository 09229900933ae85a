// SPDX-License-Identifier: MIT OR Apache-2.0
// Takes the outer VLAN tag off, by moving the packet's start, and passes the packet.
#include "parse.h"

struct addresses {
	__u8 both[2 * ETH_ALEN];
};

SEC("xdp")
int vlan_pop(struct xdp_md *ctx)
{
	struct cursor c = packet(ctx);
	struct ethhdr *eth = c.at;
	struct addresses addresses;

	if ((void *)(eth + 1) + sizeof(struct vlan_tag) > c.end)
		return XDP_PASS;
	if (eth->h_proto != bpf_htons(ETH_P_8021Q) && eth->h_proto != bpf_htons(ETH_P_8021AD))
		return XDP_PASS;
	addresses = *(struct addresses *)eth;
	if (bpf_xdp_adjust_head(ctx, sizeof(struct vlan_tag)))
		return XDP_ABORTED;
	c = packet(ctx);
	if (c.at + sizeof(addresses) > c.end)
		return XDP_ABORTED;
	*(struct addresses *)c.at = addresses;
	return XDP_PASS;
}

char _license[] SEC("license") = "Dual MIT/GPL";
