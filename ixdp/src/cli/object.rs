//! Object files on the command line.

use std::path::Path;

use ixdp::xdp_vm::Object;

use crate::cli::failure::{FileError, file, read};

/// Reads an object file.
pub(crate) fn read_object(path: &Path) -> Result<Object, FileError> {
    Object::parse(&read(path)?).map_err(file("load", path))
}

/// Sets global variables before a program is verified.
pub(crate) fn set_variables(
    object: &mut Object,
    path: &Path,
    variables: &[(String, String)],
) -> Result<(), FileError> {
    let set = |(name, value): &(String, String)| object.set_variable_text(name, value);
    variables
        .iter()
        .try_for_each(set)
        .map_err(file("set a variable of", path))
}
