// SPDX-License-Identifier: MIT OR Apache-2.0
// Cuts every packet to at most `keep` bytes, or pads it with zeros to at least `pad_to`, and sends
// it on. A packet that cannot be cut or padded is aborted.
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

const volatile __u32 keep = 128;
const volatile __u32 pad_to = 60;

SEC("xdp")
int trim(struct xdp_md *ctx)
{
	__u32 len = ctx->data_end - ctx->data;
	int change = 0;

	if (len > keep)
		change = keep - len;
	else if (len < pad_to)
		change = pad_to - len;
	if (change && bpf_xdp_adjust_tail(ctx, change))
		return XDP_ABORTED;
	return XDP_TX;
}

char _license[] SEC("license") = "Dual MIT/GPL";
