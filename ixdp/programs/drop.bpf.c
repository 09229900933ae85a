// SPDX-License-Identifier: MIT OR Apache-2.0
// Drops every packet and counts them, each CPU for itself.
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} dropped SEC(".maps");

SEC("xdp")
int drop(struct xdp_md *ctx)
{
	__u32 key = 0;
	__u64 *count = bpf_map_lookup_elem(&dropped, &key);

	if (count)
		*count += 1;
	return XDP_DROP;
}

char _license[] SEC("license") = "Dual MIT/GPL";
