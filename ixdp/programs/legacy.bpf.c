// SPDX-License-Identifier: MIT OR Apache-2.0
// Counts packets by length in maps defined as before BTF: structs in the section `maps`, here of
// the nine words that iproute2 used. Even lengths pass, odd ones are dropped.
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct map_definition {
	__u32 type;
	__u32 key_size;
	__u32 value_size;
	__u32 max_entries;
	__u32 flags;
	__u32 id;
	__u32 pinning;
	__u32 inner_id;
	__u32 inner_index;
};

struct map_definition SEC("maps") lengths = {
	.type = BPF_MAP_TYPE_HASH,
	.key_size = sizeof(__u32),
	.value_size = sizeof(__u64),
	.max_entries = 4096,
};

struct map_definition SEC("maps") totals = {
	.type = BPF_MAP_TYPE_PERCPU_ARRAY,
	.key_size = sizeof(__u32),
	.value_size = sizeof(__u64),
	.max_entries = 2,
};

SEC("prog")
int legacy(struct xdp_md *ctx)
{
	__u32 len = ctx->data_end - ctx->data;
	__u32 odd = len & 1;
	__u64 one = 1;
	__u64 *count = bpf_map_lookup_elem(&lengths, &len);

	if (count)
		__sync_fetch_and_add(count, 1);
	else
		bpf_map_update_elem(&lengths, &len, &one, BPF_NOEXIST);
	count = bpf_map_lookup_elem(&totals, &odd);
	if (count)
		*count += 1;
	return odd ? XDP_DROP : XDP_PASS;
}

char _license[] SEC("license") = "Dual MIT/GPL";
