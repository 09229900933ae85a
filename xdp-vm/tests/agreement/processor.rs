//! Keeps a test on one processor: programs ask for its number, and per-CPU maps go by it.
#![allow(unsafe_code)] // sched_setaffinity(2) takes a set by pointer

/// Puts this thread onto the second processor that it may use, else the only one, and gives its number.
pub(crate) fn pin() -> u32 {
    // SAFETY: a set of processors is plain bits, for which all zeroes are the empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set is as long as said, and ours.
    let result = unsafe { libc::sched_getaffinity(0, size_of_val(&set), &raw mut set) };
    assert_eq!(result, 0, "sched_getaffinity");
    // SAFETY: the number is below the set's size.
    let may = |n: usize| unsafe { libc::CPU_ISSET(n, &set) };
    let allowed: Vec<usize> = (0..libc::CPU_SETSIZE as usize)
        .filter(|&n| may(n))
        .collect();
    let chosen = *allowed.get(1).unwrap_or(&allowed[0]);
    // SAFETY: as above, of another set.
    let mut one: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the number came out of such a set.
    unsafe { libc::CPU_SET(chosen, &mut one) };
    // SAFETY: as above.
    let result = unsafe { libc::sched_setaffinity(0, size_of_val(&one), &raw const one) };
    assert_eq!(result, 0, "sched_setaffinity to {chosen}");
    chosen as u32
}
