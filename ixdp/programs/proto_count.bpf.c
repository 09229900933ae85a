// SPDX-License-Identifier: MIT OR Apache-2.0
// Counts packets by the protocol that their IP header names, and drops them all. A packet that is
// not IP, or is cut, counts in the last entry.
#include "parse.h"

#define OTHER 256

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, OTHER + 1);
	__type(key, __u32);
	__type(value, __u64);
} rxcnt SEC(".maps");

SEC("xdp")
int proto_count(struct xdp_md *ctx)
{
	struct cursor c = packet(ctx);
	int protocol = parse_protocol(&c);
	__u32 key = protocol == NO_PROTOCOL ? OTHER : protocol;
	__u64 *count = bpf_map_lookup_elem(&rxcnt, &key);

	if (count)
		*count += 1;
	return XDP_DROP;
}

char _license[] SEC("license") = "Dual MIT/GPL";
