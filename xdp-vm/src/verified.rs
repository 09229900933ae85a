//! What the verifier hands to the engines: a program that was proved safe, with what was learnt of
//! each instruction. Only the verifier makes one, so an engine may run it without a check.

use crate::verifier::{VerifyError, check_shape};
use crate::{MapSpec, Program};

/// A program that the verifier accepted.
///
/// It was proved against the maps it names as they were declared then; an engine refuses to join it
/// to maps of another shape.
#[derive(Clone, Debug)]
pub struct Verified {
    program: Program,
    notes: Vec<Note>,
    maps: Vec<MapSpec>,
}

/// What the verifier learnt of one instruction slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Note {
    /// Nothing beyond its being safe.
    #[default]
    None,
    /// A load of this field of the context: the engine reads its own representation instead.
    Context(ContextField),
    /// Never reached.
    Dead,
}

/// A field of the context of an XDP program (`struct xdp_md`), in its order there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ContextField {
    /// First byte of the packet.
    Data,
    /// One past the last byte of the packet's linear part.
    DataEnd,
    /// First byte of the metadata, which ends at `Data`.
    DataMeta,
    /// Interface that the packet came in by.
    IngressIfindex,
    /// Receive queue that the packet came in by.
    RxQueueIndex,
    /// Interface that the packet leaves by (egress programs only).
    EgressIfindex,
}

impl ContextField {
    /// True of the fields that stand for an address in the packet.
    pub(crate) fn is_address(self) -> bool {
        matches!(
            self,
            ContextField::Data | ContextField::DataEnd | ContextField::DataMeta
        )
    }

    /// The field at byte `offset` of `struct xdp_md`, where one starts there. All are 4 bytes.
    pub fn at(offset: i16) -> Option<Self> {
        Some(match offset {
            0 => ContextField::Data,
            4 => ContextField::DataEnd,
            8 => ContextField::DataMeta,
            12 => ContextField::IngressIfindex,
            16 => ContextField::RxQueueIndex,
            20 => ContextField::EgressIfindex,
            _ => return None,
        })
    }
}

impl Verified {
    /// Joins a program to its notes, one a slot, and the maps (all of the object's, so that the
    /// program's map indices hold) that it was proved against.
    pub(crate) fn new(program: Program, notes: Vec<Note>, maps: Vec<MapSpec>) -> Self {
        debug_assert_eq!(program.insns.len(), notes.len());
        Verified {
            program,
            notes,
            maps,
        }
    }

    /// Takes `program` for proved, of which only its shape was looked at: instructions that there are,
    /// reserved fields zero, jumps within their function. For tools that measure or compare engines
    /// on programs of their own; to run a stranger's there is [`Checked`](crate::Checked).
    ///
    /// # Errors
    /// Its shape is wrong.
    ///
    /// # Safety
    /// Engines run it without a check. Every access of the program must be inside memory that is the
    /// process's to give away, each helper's arguments must keep its contract, and it must not read
    /// fields of the context.
    #[allow(unsafe_code)]
    pub unsafe fn assume(program: &Program, maps: &[MapSpec]) -> Result<Self, VerifyError> {
        check_shape(program, maps)?;
        let notes = vec![Note::None; program.insns.len()];
        Ok(Self::new(program.clone(), notes, maps.to_vec()))
    }

    /// The program.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// One note a slot.
    pub fn notes(&self) -> &[Note] {
        &self.notes
    }

    /// The maps that it was proved against.
    pub fn maps(&self) -> &[MapSpec] {
        &self.maps
    }
}
