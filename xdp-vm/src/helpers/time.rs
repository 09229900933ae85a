//! Clocks.

use super::Env;

/// Ticks of the kernel's coarse clock in a second (`CONFIG_HZ`): what most distributions build with.
const HZ: u64 = 250;

macro_rules! clock {
    ($name:ident, $which:ident) => {
        pub(super) unsafe extern "C" fn $name(
            env: &mut Env<'_, '_>,
            _: u64,
            _: u64,
            _: u64,
            _: u64,
            _: u64,
        ) -> u64 {
            env.cpu.now(libc::$which)
        }
    };
}

clock!(ktime_get_ns, CLOCK_MONOTONIC);
clock!(ktime_get_boot_ns, CLOCK_BOOTTIME);
clock!(ktime_get_coarse_ns, CLOCK_MONOTONIC_COARSE);
clock!(ktime_get_tai_ns, CLOCK_TAI);

/// Ticks since the start, of [`HZ`] a second.
pub(super) unsafe extern "C" fn jiffies64(
    env: &mut Env<'_, '_>,
    _: u64,
    _: u64,
    _: u64,
    _: u64,
    _: u64,
) -> u64 {
    env.cpu.now(libc::CLOCK_MONOTONIC_COARSE) / (1_000_000_000 / HZ)
}
