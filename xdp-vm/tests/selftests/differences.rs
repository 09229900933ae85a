//! The selftests on which our verdict is not the kernel's, and why that is meant: argued in
//! `docs/verifier.md`. A name is `file/program`, without the file's `verifier_`.

/// Why the verdict on `name` differs, where that is meant.
pub(crate) fn reason(name: &str) -> Option<&'static str> {
    all().find(|(n, _)| *n == name).map(|(_, reason)| reason)
}

/// Every name with its reason.
pub(crate) fn all() -> impl Iterator<Item = (&'static str, &'static str)> {
    let named = |&(reason, names): &(&'static str, &'static [&'static str])| {
        names.iter().map(move |name| (*name, reason))
    };
    REASONS.iter().flat_map(named)
}

const REASONS: &[(&str, &[&str])] = &[
    // Refused here, accepted by the kernel.
    ("an address would be returned", RETURNED),
    ("an address would be revealed", REVEALED),
    ("the stack is read before it is written", UNWRITTEN_STACK),
    ("a map is not the kernel's struct here", MAP_FIELDS),
    (
        "spills around calls that clobber less are not taken out of the stack's depth",
        &["bpf_fastcall/cumulative_stack_depth"],
    ),
    ("what it calls is not here", NOT_YET),
    // Accepted here, refused by the kernel.
    (
        "subtracting from the frame pointer is as good as adding to it",
        &["basic_stack/invalid_fp_arithmetic"],
    ),
    (
        "a shift takes its amount modulo the width, as RFC 9669 has it, so its result is known",
        &["bounds/shift_with_oversized_count_operand"],
    ),
    (
        "recursion that ends within the frames and the stack there are is followed like any call",
        &["loops1/bounded_recursion"],
    ),
    (
        "a packet pointer is never null (of XDP, where it is a mark of tc), so that way is not followed",
        &["spin_lock/reg_id_for_map_value"],
    ),
    (
        "declared as a program that may sleep, which the kernel refuses of an XDP program",
        &["global_subprogs/arg_tag_ctx_syscall"],
    ),
];

/// The kernel lets who may see its addresses load a program that returns one. Here no address leaves.
const RETURNED: &[&str] = &[
    "array_access/an_array_with_a_constant_1",
    "array_access/an_array_with_a_register_1",
    "array_access/an_array_with_a_variable_1",
    "array_access/array_with_a_signed_variable",
    "bounds/_32_bit_truncation_test_1",
    "bounds/_32_bit_truncation_test_2",
    "cgroup_inv_retcode/with_invalid_return_code_test1",
    "cgroup_inv_retcode/with_invalid_return_code_test6",
    "helper_access_var_len/ptr_to_mem_or_null_5",
    "helper_access_var_len/ptr_to_mem_or_null_6",
    "helper_value_access/adjusted_map_via_const_imm",
    "helper_value_access/adjusted_map_via_const_reg",
    "helper_value_access/lookup_helper_access_to_map",
    "helper_value_access/to_adjusted_map_via_variable",
    "search_pruning/state_equality_check_way_1",
    "search_pruning/state_equality_check_way_2",
    "spill_fill/check_valid_spill_fill",
    "spill_fill/valid_spill_fill_skb_mark",
    "unpriv/unpriv_return_pointer",
    "value/element_value_with_unaligned_load",
    "value/element_value_with_unaligned_store",
    "value/is_preserved_across_register_spilling",
    "value_adj_spill/is_marked_on_register_spilling",
    "value_adj_spill/is_preserved_across_register_spilling",
    "value_or_null/lookup_and_null_branch_prediction",
    "value_or_null/share_map_lookup_elem_result",
    "value_or_null/with_2nd_lookup_in_branch",
];

/// As root the kernel lets a program compute with an address, compare it with a number, or write it to a
/// map. Here no address leaves, for whoever loads it.
const REVEALED: &[&str] = &[
    "bounds/subtraction_on_pointers_for_unpriv",
    "leak_ptr/leak_pointer_into_map_val",
    "map_ptr/_0_r_r_map_ptr",
    "map_ptr/map_ptr_map_ptr_r",
    "precision/bpf_cond_op_not_r10",
    "precision/bpf_cond_op_r10",
    "stack_ptr/array_map_using_bpf_b",
    "subprog_precision/fp_precise_subprog_result",
    "subprog_precision/sneaky_fp_precise_subprog_result",
    "unpriv/on_stack_to_helper_function",
    "unpriv/pass_pointer_to_helper_function",
    "unpriv/pass_pointer_to_tail_call",
    "unpriv/pointer_into_map_elem_value",
    "unpriv/unpriv_neg_pointer",
    "unpriv/unpriv_partial_copy_of_pointer",
    "value_ptr_arith/known_scalar_from_different_maps",
    "value_ptr_arith/maps_but_same_value_properties",
    "value_ptr_arith/ptr_const_vs_const_eq",
    "value_ptr_arith/ptr_const_vs_const_ne",
    "value_ptr_arith/ptr_unknown_vs_unknown_eq",
    "value_ptr_arith/ptr_unknown_vs_unknown_gt",
    "value_ptr_arith/ptr_unknown_vs_unknown_lt",
    "value_ptr_arith/value_ptr_const_vs_unknown",
    "value_ptr_arith/value_ptr_from_different_maps",
    "value_ptr_arith/value_ptr_unknown_vs_const",
];

/// As root the kernel lets a program read its stack before it wrote it. Here what it would read is what
/// the program before it left.
const UNWRITTEN_STACK: &[&str] = &[
    "basic_stack/uninitialized_stack1",
    "basic_stack/uninitialized_stack2",
    "helper_access_var_len/stack_bitwise_and_zero_included",
    "helper_access_var_len/stack_jmp_no_min_check",
    "helper_access_var_len/variable_memory_8_bytes_leak",
    "mtu/tc_uninit_mtu",
    "raw_stack/stack_no_skb_load_bytes",
    "search_pruning/and_register_parent_chain_bug",
    "search_pruning/be_verified_invalid_stack_access",
    "spill_fill/check_corrupted_spill_fill_lsb",
    "spill_fill/check_corrupted_spill_fill_msb",
    "spill_fill/old_imprecise_scalar_vs_cur_stack_misc",
    "spill_fill/old_stack_misc_vs_cur_scalar",
    "spill_fill/uninit_u32_from_the_stack",
    "subprog_precision/stack_slot_aliases_precision",
];

/// The kernel lets a program read the fields of its `struct bpf_map`. Here a map is not that struct.
const MAP_FIELDS: &[&str] = &[
    "map_ptr/ptr_read_ops_field_accepted",
    "map_ptr/read_non_existent_field_rejected",
];

/// Callbacks, iterators, references and the helpers of other program types.
const NOT_YET: &[&str] = &[
    "bpf_fastcall/bad_helper_write",
    "bpf_fastcall/bpf_loop_interaction1",
    "bpf_fastcall/bpf_loop_interaction2",
    "bpf_fastcall/kfunc_bpf_cast_to_kern_ctx",
    "bpf_fastcall/kfunc_bpf_rdonly_cast",
    "bpf_fastcall/may_goto_interaction",
    "const_or/constant_should_keep_constant_type",
    "const_or/register_should_keep_constant_type",
    "global_ptr_args/trusted_task_arg_nonnull",
    "global_subprogs/arg_tag_dynptr",
    "global_subprogs/arg_tag_nullable_ptr_fail",
    "helper_access_var_len/bytes_no_leak_init_memory",
    "helper_access_var_len/memory_map_jmp_correct_bounds",
    "helper_access_var_len/memory_stack_jmp_correct_bounds",
    "helper_access_var_len/ptr_to_mem_or_null_10",
    "helper_access_var_len/ptr_to_mem_or_null_11",
    "helper_access_var_len/ptr_to_mem_or_null_12",
    "helper_access_var_len/ptr_to_mem_or_null_13",
    "helper_access_var_len/stack_jmp_signed_correct_bounds",
    "helper_value_access/access_to_map_full_range",
    "helper_value_access/access_to_map_partial_range",
    "helper_value_access/map_via_variable_full_range",
    "helper_value_access/map_via_variable_partial_range",
    "helper_value_access/via_const_imm_full_range",
    "helper_value_access/via_const_imm_partial_range",
    "helper_value_access/via_const_reg_full_range",
    "helper_value_access/via_const_reg_partial_range",
    "iterating_callbacks/bpf_loop_iter_limit_nested",
    "iterating_callbacks/bpf_loop_iter_limit_ok",
    "iterating_callbacks/check_add_const",
    "iterating_callbacks/cond_break1",
    "iterating_callbacks/cond_break2",
    "iterating_callbacks/cond_break3",
    "iterating_callbacks/cond_break4",
    "iterating_callbacks/cond_break5",
    "iterating_callbacks/gotol_and_may_goto",
    "iterating_callbacks/ja_and_may_goto",
    "iterating_callbacks/ja_and_may_goto2",
    "iterating_callbacks/ja_and_may_goto_subprog",
    "iterating_callbacks/jlt_and_may_goto",
    "iterating_callbacks/loop_inside_iter",
    "iterating_callbacks/loop_inside_iter_signed",
    "iterating_callbacks/loop_inside_iter_volatile_limit",
    "iterating_callbacks/may_goto_neg_off",
    "iterating_callbacks/test1",
    "iterating_callbacks/test2",
    "iterating_callbacks/test3",
    "iterating_callbacks/test4",
    "iterating_callbacks/widening",
    "kfunc_prog_types/cgrp_kfunc_perf_event",
    "kfunc_prog_types/cgrp_kfunc_raw_tp",
    "kfunc_prog_types/cgrp_kfunc_tracepoint",
    "kfunc_prog_types/task_kfunc_perf_event",
    "kfunc_prog_types/task_kfunc_raw_tp",
    "kfunc_prog_types/task_kfunc_tracepoint",
    "ref_tracking/alloc_in_subprog_release_outside",
    "ref_tracking/call_free_reference_in_subprog",
    "ref_tracking/check_reference_or_tail_call",
    "ref_tracking/ptr_spill_into_caller_stack",
    "ref_tracking/reference_tracking_access_member",
    "ref_tracking/reference_tracking_release_reference",
    "ref_tracking/reference_tracking_release_reference_2",
    "ref_tracking/release_reference_then_tail_call",
    "ref_tracking/release_reference_to_sock_common",
    "ref_tracking/sk_release_btf_tcp_sock",
    "ref_tracking/to_leak_released_ptr_reg",
    "ref_tracking/tracking_valid_pointer_null_comparison",
    "sock/field_bpf_sk_release_sk_1",
    "sock/field_bpf_sk_release_sk_2",
    "sockmap_mutate/test_flow_dissector_delete",
    "sockmap_mutate/test_flow_dissector_update",
    "sockmap_mutate/test_raw_tp_delete",
    "sockmap_mutate/test_raw_tp_update",
    "sockmap_mutate/test_sockops_delete",
    "sockmap_mutate/test_xdp",
    "subprog_precision/callback_result_precise",
    "subprog_precision/parent_callee_saved_reg_precise_with_callback",
    "subprog_precision/parent_stack_slot_precise_with_callback",
    "tailcall_jit/main",
];
