//! Object files on the command line.

use std::path::{Path, PathBuf};

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

/// `FILE.o:NAME`, unless there is a file of that whole name.
pub(crate) fn split(argument: &Path) -> (PathBuf, Option<String>) {
    let whole = (argument.to_owned(), None);
    if argument.exists() {
        return whole;
    }
    let parts = argument.to_str().and_then(|text| text.rsplit_once(':'));
    match parts {
        Some((path, name)) if !path.is_empty() && !name.is_empty() => {
            (path.into(), Some(name.to_owned()))
        }
        _ => whole,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_follow_the_file() {
        let of = |text: &str| split(Path::new(text));
        assert_eq!(of("a.o:main"), ("a.o".into(), Some("main".to_owned())));
        assert_eq!(of("a.o"), ("a.o".into(), None));
        assert_eq!(
            of("dir:x/a.o:f"),
            ("dir:x/a.o".into(), Some("f".to_owned()))
        );
        assert_eq!(of("a.o:"), ("a.o:".into(), None));
        let file = tempfile::Builder::new().suffix(":b").tempfile().unwrap();
        assert_eq!(split(file.path()), (file.path().to_owned(), None));
    }
}
