//! What a program is for, as loaders read it off the name of its section (libbpf's table of section
//! names). Names that the table does not have are taken for XDP: before libbpf 1.0 any name would do, and
//! many XDP objects have one of their own.

use crate::Program;
use crate::verifier::ProgramKind;

/// Section names of programs that are not XDP, and the type that they are of. A name is meant whole, or
/// followed by `/`, `.` or `+`.
const OTHERS: &[(&str, &str)] = &[
    ("tc", "tc"),
    ("tcx", "tc"),
    ("classifier", "tc"),
    ("action", "tc"),
    ("netkit", "tc"),
    ("socket", "socket filter"),
    ("sk_reuseport", "sk_reuseport"),
    ("sk_skb", "sk_skb"),
    ("sk_msg", "sk_msg"),
    ("sk_lookup", "sk_lookup"),
    ("sockops", "sockops"),
    ("flow_dissector", "flow dissector"),
    ("netfilter", "netfilter"),
    ("cgroup", "cgroup"),
    ("cgroup_skb", "cgroup"),
    ("lwt_in", "light-weight tunnel"),
    ("lwt_out", "light-weight tunnel"),
    ("lwt_xmit", "light-weight tunnel"),
    ("lwt_seg6local", "light-weight tunnel"),
    ("kprobe", "kprobe"),
    ("kretprobe", "kprobe"),
    ("kprobe.multi", "kprobe"),
    ("kretprobe.multi", "kprobe"),
    ("ksyscall", "kprobe"),
    ("kretsyscall", "kprobe"),
    ("uprobe", "uprobe"),
    ("uretprobe", "uprobe"),
    ("usdt", "uprobe"),
    ("tracepoint", "tracepoint"),
    ("tp", "tracepoint"),
    ("raw_tracepoint", "raw tracepoint"),
    ("raw_tp", "raw tracepoint"),
    ("tp_btf", "tracing"),
    ("fentry", "tracing"),
    ("fexit", "tracing"),
    ("fmod_ret", "tracing"),
    ("freplace", "extension"),
    ("iter", "iterator"),
    ("lsm", "LSM"),
    ("lsm_cgroup", "LSM"),
    ("syscall", "syscall"),
    ("struct_ops", "struct_ops"),
    ("perf_event", "perf event"),
];

/// The type of the programs in `section` where that is not XDP.
pub fn foreign_type(section: &str) -> Option<&'static str> {
    // libbpf does not load a section whose name starts with a question mark unless it is asked to.
    let section = section.strip_prefix('?').unwrap_or(section);
    OTHERS.iter().find_map(|&(name, what)| {
        let rest = section.strip_prefix(name)?;
        let whole = rest.is_empty() || rest.starts_with(['/', '.', '+']);
        whole.then_some(what)
    })
}

impl Program {
    /// The type of program that its section's name makes it, where that is not XDP (`tc`, `kprobe`).
    pub fn foreign_type(&self) -> Option<&'static str> {
        foreign_type(&self.section)
    }

    /// Where a program of its section runs: `xdp/devmap` and `xdp/cpumap` on entries of such maps,
    /// everything else at a receive queue.
    pub fn kind(&self) -> ProgramKind {
        let section = self.section.strip_prefix('?').unwrap_or(&self.section);
        let place = section
            .strip_prefix("xdp.frags/")
            .or_else(|| section.strip_prefix("xdp/"))
            .or_else(|| section.strip_prefix("xdp_"));
        match place.map(|p| p.split('/').next().unwrap_or_default()) {
            Some("devmap") => ProgramKind::XdpDevmap,
            Some("cpumap") => ProgramKind::XdpCpumap,
            _ => ProgramKind::Xdp,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_say_what_a_program_is() {
        for xdp in [
            "xdp",
            "xdp/lb",
            "xdp.frags",
            "prog",
            "xdp_tcx",
            "tc_like",
            "filter",
        ] {
            assert_eq!(foreign_type(xdp), None, "{xdp}");
        }
        for (section, what) in [
            ("tc", "tc"),
            ("?tc", "tc"),
            ("tcx/ingress", "tc"),
            ("classifier/a", "tc"),
            ("fentry.s/vfs_read", "tracing"),
            ("lsm_cgroup/bind", "LSM"),
            ("struct_ops.link", "struct_ops"),
        ] {
            assert_eq!(foreign_type(section), Some(what), "{section}");
        }
        let kind = |section: &str| {
            Program {
                section: section.to_owned(),
                ..Program::default()
            }
            .kind()
        };
        assert_eq!(kind("xdp/devmap"), ProgramKind::XdpDevmap);
        assert_eq!(kind("xdp.frags/devmap"), ProgramKind::XdpDevmap);
        assert_eq!(kind("xdp_cpumap/redirect"), ProgramKind::XdpCpumap);
        assert_eq!(kind("xdp/devmapper"), ProgramKind::Xdp);
    }
}
