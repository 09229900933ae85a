//! The kernel's error numbers, as helpers return them (negated) and as map operations fail.

use std::fmt;

/// An error number of Linux.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Errno(pub i32);

#[allow(missing_docs)]
impl Errno {
    pub const EPERM: Errno = Errno(1);
    pub const ENOENT: Errno = Errno(2);
    pub const E2BIG: Errno = Errno(7);
    pub const EAGAIN: Errno = Errno(11);
    pub const ENOMEM: Errno = Errno(12);
    pub const EACCES: Errno = Errno(13);
    pub const EFAULT: Errno = Errno(14);
    pub const EEXIST: Errno = Errno(17);
    pub const ENODEV: Errno = Errno(19);
    pub const EINVAL: Errno = Errno(22);
    pub const ENOSPC: Errno = Errno(28);
    pub const ENODATA: Errno = Errno(61);
    pub const EOVERFLOW: Errno = Errno(75);
    pub const EOPNOTSUPP: Errno = Errno(95);
    pub const EAFNOSUPPORT: Errno = Errno(97);
}

impl Errno {
    /// What a helper leaves in r0.
    pub(crate) fn as_return(self) -> u64 {
        i64::from(-self.0).cast_unsigned()
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match *self {
            Errno::EPERM => "EPERM, not permitted",
            Errno::ENOENT => "ENOENT, no such entry",
            Errno::E2BIG => "E2BIG, the map is full or the index past its end",
            Errno::ENOMEM => "ENOMEM, out of memory",
            Errno::EEXIST => "EEXIST, the entry is there already",
            Errno::EAGAIN => "EAGAIN, there is no room now",
            Errno::EACCES => "EACCES, not allowed",
            Errno::EFAULT => "EFAULT, out of range",
            Errno::ENOSPC => "ENOSPC, the map is full",
            Errno::ENODATA => "ENODATA, nothing was said of it",
            Errno::EOVERFLOW => "EOVERFLOW, the value is too large",
            Errno::EOPNOTSUPP => "EOPNOTSUPP, the kind of map does not do this",
            Errno::ENODEV => "ENODEV, no such device",
            Errno::EAFNOSUPPORT => "EAFNOSUPPORT, not an address of IPv4 or IPv6",
            Errno::EINVAL => "EINVAL, invalid argument",
            Errno(other) => return write!(f, "errno {other}"),
        };
        f.write_str(text)
    }
}
