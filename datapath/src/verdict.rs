//! What a program says about a packet.

use std::fmt;

/// An XDP action (`enum xdp_action`). The numbers are the kernel's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Verdict {
    /// The program failed; the packet is dropped and the exception counted.
    Aborted = 0,
    /// Drop the packet.
    Drop = 1,
    /// Give the packet to the application.
    Pass = 2,
    /// Send the packet back out of the port it came from.
    Tx = 3,
    /// Send the packet where the program's redirect helper said.
    Redirect = 4,
}

impl Verdict {
    /// All verdicts, each at the index of its number.
    pub const ALL: [Verdict; 5] = [
        Verdict::Aborted,
        Verdict::Drop,
        Verdict::Pass,
        Verdict::Tx,
        Verdict::Redirect,
    ];

    /// The verdict that a program's return value means; `None` for a number that is none, which a
    /// driver treats as [`Aborted`](Verdict::Aborted).
    #[inline]
    pub fn from_return(value: u32) -> Option<Verdict> {
        match value {
            0 => Some(Verdict::Aborted),
            1 => Some(Verdict::Drop),
            2 => Some(Verdict::Pass),
            3 => Some(Verdict::Tx),
            4 => Some(Verdict::Redirect),
            _ => None,
        }
    }

    /// Its name in lower case, as counters and JSON have it.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Aborted => "aborted",
            Verdict::Drop => "drop",
            Verdict::Pass => "pass",
            Verdict::Tx => "tx",
            Verdict::Redirect => "redirect",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_the_kernels() {
        for (i, v) in Verdict::ALL.into_iter().enumerate() {
            assert_eq!((v as usize, Verdict::from_return(i as u32)), (i, Some(v)));
        }
        assert_eq!(Verdict::from_return(5), None);
        assert_eq!(Verdict::from_return(u32::MAX), None);
    }
}
