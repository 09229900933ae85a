// SPDX-License-Identifier: MIT OR Apache-2.0
// Sends every packet back where it came from: swaps the Ethernet addresses and transmits.
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <bpf/bpf_helpers.h>

SEC("xdp")
int tx_swap(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data;
	void *end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = data;
	__u8 source[ETH_ALEN];

	if (data + sizeof(*eth) > end)
		return XDP_DROP;
	__builtin_memcpy(source, eth->h_source, ETH_ALEN);
	__builtin_memcpy(eth->h_source, eth->h_dest, ETH_ALEN);
	__builtin_memcpy(eth->h_dest, source, ETH_ALEN);
	return XDP_TX;
}

char _license[] SEC("license") = "Dual MIT/GPL";
