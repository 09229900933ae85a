// SPDX-License-Identifier: MIT OR Apache-2.0
// Several programs in several sections that share a map and a function in `.text`. `lottery`
// answers with a verdict drawn at random, `by_length` with one fixed by the packet's length,
// `aborted` always aborts, and `forget` empties the count of the last packet's CPU.
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#define VERDICTS 4

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, VERDICTS);
	__type(key, __u32);
	__type(value, __u64);
} verdicts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, 64);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u32);
	__type(value, __u64);
} by_cpu SEC(".maps");

__noinline int answer(__u32 verdict)
{
	__u32 cpu = bpf_get_smp_processor_id();
	__u64 one = 1;
	__u64 *count = bpf_map_lookup_elem(&verdicts, &verdict);

	if (!count)
		return XDP_ABORTED;
	__sync_fetch_and_add(count, 1);
	count = bpf_map_lookup_elem(&by_cpu, &cpu);
	if (count)
		*count += 1;
	else
		bpf_map_update_elem(&by_cpu, &cpu, &one, BPF_ANY);
	return verdict;
}

SEC("xdp")
int lottery(struct xdp_md *ctx)
{
	return answer(bpf_get_prandom_u32() % VERDICTS);
}

SEC("xdp")
int aborted(struct xdp_md *ctx)
{
	return answer(XDP_ABORTED);
}

SEC("xdp/by_length")
int by_length(struct xdp_md *ctx)
{
	__u32 len = ctx->data_end - ctx->data;

	return answer(len % VERDICTS);
}

SEC("xdp_forget")
int forget(struct xdp_md *ctx)
{
	__u32 cpu = bpf_get_smp_processor_id();

	return bpf_map_delete_elem(&by_cpu, &cpu) ? XDP_PASS : XDP_DROP;
}

char _license[] SEC("license") = "Dual MIT/GPL";
