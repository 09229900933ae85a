//! The programs in their three forms: for XDP, for VMs that hand a program its packet by address, and
//! for the machine.

use std::path::{Path, PathBuf};
use std::process::Command;

use object::{Object as _, ObjectSection as _};
use xdp_vm::Object;

/// Files in `programs/`, and the functions in them.
pub(crate) const NAMES: [&str; 5] = ["parse", "count", "csum", "alu", super::NOTHING];

/// What clang made, in a folder that goes with it.
pub(crate) struct Programs {
    folder: tempfile::TempDir,
}

/// What clang compiles for.
#[derive(Clone, Copy)]
enum Form {
    Xdp,
    Vm,
    /// For VMs that do not know the instructions of version 3.
    OldVm,
    Native,
}

impl Form {
    const ALL: [Form; 4] = [Form::Xdp, Form::Vm, Form::OldVm, Form::Native];

    fn suffix(self) -> &'static str {
        match self {
            Form::Xdp => "xdp.o",
            Form::Vm => "vm.o",
            Form::OldVm => "old.o",
            Form::Native => "so",
        }
    }

    fn arguments(self) -> &'static [&'static str] {
        match self {
            Form::Xdp => &["-target", "bpf", "-mcpu=v3", "-DXDP", "-g", "-c"],
            Form::Vm => &["-target", "bpf", "-mcpu=v3", "-c"],
            Form::OldVm => &["-target", "bpf", "-mcpu=v2", "-c"],
            Form::Native => &["-shared", "-fPIC"],
        }
    }
}

/// Context of the two forms that are not for XDP: the packet's first byte and the one behind it.
#[repr(C)]
pub(crate) struct Packet {
    pub(crate) data: u64,
    pub(crate) end: u64,
}

impl Programs {
    /// Compiles all sources.
    pub(crate) fn compile() -> Result<Programs, String> {
        let clang = std::env::var("CLANG").unwrap_or_else(|_| "clang".to_owned());
        let folder = tempfile::tempdir().map_err(|e| format!("no temporary folder: {e}"))?;
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/peers/programs");
        let programs = Programs { folder };
        for name in NAMES {
            for form in Form::ALL {
                let output = Command::new(&clang)
                    .args(["-O2", "-Wall", "-Werror"])
                    .args(form.arguments())
                    .arg(sources.join(name).with_extension("c"))
                    .arg("-o")
                    .arg(programs.path(name, form))
                    .output()
                    .map_err(|e| format!("{clang}: {e}; install clang"))?;
                if !output.status.success() {
                    return Err(String::from_utf8_lossy(&output.stderr).into_owned());
                }
            }
        }
        Ok(programs)
    }

    fn path(&self, name: &str, form: Form) -> PathBuf {
        self.folder.path().join(format!("{name}.{}", form.suffix()))
    }

    pub(crate) fn native(&self, name: &str) -> PathBuf {
        self.path(name, Form::Native)
    }

    pub(crate) fn xdp(&self, name: &str) -> Result<Object, String> {
        let bytes = std::fs::read(self.path(name, Form::Xdp)).map_err(|e| e.to_string())?;
        Object::parse(&bytes).map_err(|e| e.to_string())
    }

    /// Bare instructions.
    pub(crate) fn vm(&self, name: &str) -> Result<Vec<u8>, String> {
        self.text(name, Form::Vm)
    }

    /// As [`Programs::vm`], of the second version of the instruction set.
    pub(crate) fn old_vm(&self, name: &str) -> Result<Vec<u8>, String> {
        self.text(name, Form::OldVm)
    }

    fn text(&self, name: &str, form: Form) -> Result<Vec<u8>, String> {
        let bytes = std::fs::read(self.path(name, form)).map_err(|e| e.to_string())?;
        let file = object::File::parse(&bytes[..]).map_err(|e| e.to_string())?;
        let text = file.section_by_name(".text").ok_or("no code")?;
        Ok(text.data().map_err(|e| e.to_string())?.to_vec())
    }
}

/// The packet that all run on: IPv4 and UDP, to the port that `parse` looks for, then noise.
pub(crate) fn packet() -> Vec<u8> {
    let mut rng = fastrand::Rng::with_seed(1500);
    let mut packet: Vec<u8> = (0..1500).map(|_| rng.u8(..)).collect();
    packet[12..14].copy_from_slice(&[0x08, 0x00]);
    packet[14] = 0x45;
    packet[23] = 17;
    packet[36..38].copy_from_slice(&4789u16.to_be_bytes());
    packet
}
