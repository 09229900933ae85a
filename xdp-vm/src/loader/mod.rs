//! Reads what `clang -target bpf` compiled: ELF sections and symbols (`elf`), type information
//! (`btf`, `btf_ext`, `core`), map definitions (`maps`, `map_def`), and links each program with the functions that it
//! calls into one run of instructions (`link`).
//!
//! A fault of one program leaves the others usable: it is kept in [`Object::rejected`]. A fault of
//! the file is an error. No file makes it panic, and memory taken is in proportion to the file.

mod btf;
mod btf_ext;
mod core;
mod elf;
mod error;
mod link;
mod map_def;
mod maps;
mod shape;
mod variables;

pub use error::LoadError;

use crate::{Object, Program, Rejected};

impl Object {
    /// Reads an object file.
    ///
    /// # Errors
    /// What is wrong with the file as a whole: not ELF, not eBPF, big-endian, cut, or without any
    /// program. What is wrong with one program is in [`Object::rejected`].
    pub fn parse(bytes: &[u8]) -> Result<Object, LoadError> {
        let elf = elf::Elf::parse(bytes)?;
        let btf = match elf.section(".BTF") {
            Some((_, section)) => btf::Btf::parse(section.data)?,
            None => btf::Btf::default(),
        };
        let ext = match elf.section(".BTF.ext") {
            Some((_, section)) => btf_ext::BtfExt::parse(section.data, &btf)?,
            None => btf_ext::BtfExt::default(),
        };
        let maps = maps::MapTable::read(&elf, &btf)?;
        let linked = link::link(&elf, &btf, &ext, &maps)?;
        let mut object = Object {
            maps: maps.specs,
            license: elf.section("license").map(|(_, s)| text(s.data)),
            ..Object::default()
        };
        for program in linked {
            match program {
                Ok(program) => object.programs.push(program),
                Err(rejected) => object.rejected.push(rejected),
            }
        }
        Ok(object)
    }

    /// The program of that name, or without a name the only one.
    ///
    /// # Errors
    /// There is no such program, it cannot be used (then why), or there are several to choose from.
    pub fn program(&self, name: Option<&str>) -> Result<&Program, LoadError> {
        if let Some(name) = name {
            if let Some(program) = self.programs.iter().find(|p| p.name == name) {
                return Ok(program);
            }
            return Err(match self.rejected.iter().find(|r| r.name == name) {
                Some(rejected) => rejected.as_error(),
                None => LoadError::UnknownProgram {
                    name: name.to_owned(),
                    known: self.known(),
                },
            });
        }
        match (&self.programs[..], &self.rejected[..]) {
            ([only], []) => Ok(only),
            ([], [only]) => Err(only.as_error()),
            ([], []) => Err(LoadError::NoProgram),
            _ => Err(LoadError::WhichProgram {
                known: self.known(),
            }),
        }
    }

    fn known(&self) -> String {
        let names = self.programs.iter().map(|p| &p.name[..]);
        let names: Vec<_> = names
            .chain(self.rejected.iter().map(|r| &r.name[..]))
            .collect();
        names.join(", ")
    }
}

impl Rejected {
    fn as_error(&self) -> LoadError {
        LoadError::Rejected {
            name: self.name.clone(),
            cause: Box::new(self.error.clone()),
        }
    }
}

fn text(bytes: &[u8]) -> String {
    let text = bytes.split(|&b| b == 0).next().unwrap_or_default();
    String::from_utf8_lossy(text).into_owned()
}
