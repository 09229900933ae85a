//! What goes to stdout: lines of figures for people, one JSON object a line for programs.

use std::io::{self, ErrorKind, Write};

use serde::Serialize;

use crate::cli::args::Format;

/// Stdout. Once its reader is gone, nothing more is written and [`is_closed`](Self::is_closed) says so.
#[derive(Debug)]
pub(crate) struct Output {
    format: Format,
    closed: bool,
}

impl Output {
    pub(crate) fn new(format: Format) -> Self {
        Output {
            format,
            closed: false,
        }
    }

    /// True where the reader has gone away (`ixdp ... | head -1`).
    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Prints a line for people; in JSON nothing.
    pub(crate) fn text(&mut self, line: impl AsRef<str>) -> io::Result<()> {
        match self.format {
            Format::Text => self.write(line.as_ref().to_owned()),
            Format::Json => Ok(()),
        }
    }

    /// Prints an object for programs; in text nothing.
    pub(crate) fn json(&mut self, object: &impl Serialize) -> io::Result<()> {
        match self.format {
            Format::Text => Ok(()),
            Format::Json => self.write(serde_json::to_string(object)?),
        }
    }

    /// Prints an object whatever the format.
    pub(crate) fn write(&mut self, mut line: String) -> io::Result<()> {
        if self.closed {
            return Ok(());
        }
        line.push('\n');
        let mut stdout = io::stdout().lock();
        match stdout
            .write_all(line.as_bytes())
            .and_then(|()| stdout.flush())
        {
            Err(e) if e.kind() == ErrorKind::BrokenPipe => {
                self.closed = true;
                Ok(())
            }
            result => result.map_err(|e| stdout_failed(&e)),
        }
    }
}

/// Columns that lines for people fit into, as far as their words do.
const WIDTH: usize = 100;

/// A text behind a label, broken between words; what follows the first line is indented as far.
pub(crate) fn wrapped(label: &str, text: &str) -> String {
    let indent = label.chars().count();
    let mut out = label.to_owned();
    let mut column = indent;
    for word in text.split_whitespace() {
        let length = word.chars().count();
        if column > indent && column + 1 + length > WIDTH {
            out.push('\n');
            out.push_str(&" ".repeat(indent));
            column = indent;
        } else if column > indent {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += length;
    }
    out
}

/// An error that names stdout.
pub(crate) fn stdout_failed(error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("cannot write to stdout: {error}"))
}

/// Prints a line to stderr; where nobody listens there either, it is lost.
pub(crate) fn complain(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// A line of figures as xdp-bench lays it out: a label 23 wide, then values 13 wide, each with its unit.
pub(crate) fn figures(label: &str, values: &[(u64, &str)]) -> String {
    let mut line = format!("{label:<23}");
    for (value, unit) in values {
        line += &format!("{:>13} {unit}", thousands(*value));
    }
    line
}

/// A protocol's rate as xdp1 prints it. `None` are packets that are not IP.
pub(crate) fn protocol(number: Option<u8>, per_second: u64) -> String {
    let name = number.map_or("other".to_owned(), |n| n.to_string());
    format!("proto {name}: {per_second:>10} pkt/s")
}

/// A number with its thousands separated: `14,880,952`.
pub(crate) fn thousands(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number of bytes in the largest binary unit that it fills: `4.1 MiB`.
pub(crate) fn bytes(n: u64) -> String {
    let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match units.into_iter().find(|(size, _)| n >= *size) {
        Some((size, unit)) => format!("{:.1} {unit}", n as f64 / size as f64),
        None => format!("{n} bytes"),
    }
}

/// Packets a second over `seconds`; 0 where no time has passed.
pub(crate) fn rate(packets: u64, seconds: f64) -> u64 {
    if seconds > 0.0 {
        (packets as f64 / seconds).round() as u64
    } else {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_by_thousands() {
        for (n, text) in [
            (0, "0"),
            (999, "999"),
            (1000, "1,000"),
            (14_880_952, "14,880,952"),
            (u64::MAX, "18,446,744,073,709,551,615"),
        ] {
            assert_eq!(thousands(n), text);
        }
    }

    #[test]
    fn lines_have_the_originals_columns() {
        let line = figures("Summary", &[(14_880_952, "rx/s"), (0, "err/s")]);
        assert_eq!(
            line,
            "Summary                   14,880,952 rx/s            0 err/s"
        );
        assert_eq!(protocol(Some(17), 14_880_952), "proto 17:   14880952 pkt/s");
        assert_eq!(protocol(None, 3), "proto other:          3 pkt/s");
    }

    #[test]
    fn rates_and_sizes() {
        assert_eq!((rate(10, 0.0), rate(10, 4.0)), (0, 3));
        assert_eq!(
            (bytes(1023), bytes(1536)),
            ("1023 bytes".into(), "1.5 KiB".into())
        );
    }
}
