// SPDX-License-Identifier: MIT OR Apache-2.0
// Passes one packet of every `every` and drops the rest. Shows global variables of each kind and a
// function of its own: `every` may be set while it runs, `seen` and `sampled` are read from outside.
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

__u32 every = 10;
__u64 seen;
__u64 sampled;
static __u32 until_next;

static __noinline int take(__u32 len)
{
	if (until_next) {
		until_next--;
		return 0;
	}
	until_next = every ? every - 1 : 0;
	sampled++;
	bpf_printk("sampled %u bytes at %llu", len, bpf_ktime_get_ns());
	return 1;
}

SEC("xdp")
int sampler(struct xdp_md *ctx)
{
	seen++;
	return take(ctx->data_end - ctx->data) ? XDP_PASS : XDP_DROP;
}

char _license[] SEC("license") = "Dual MIT/GPL";
