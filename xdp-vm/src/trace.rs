//! What programs print with `bpf_trace_printk`: lines in a buffer of fixed size, which the user
//! empties. A line that has no room is counted and lost, as a running program must not wait.

use std::fmt;

/// Bytes that fit by default.
const DEFAULT_CAPACITY: usize = 64 << 10;

/// The buffer of a worker.
#[derive(Debug)]
pub struct Trace {
    /// Lines, each ended by a newline. Never grows past its first capacity.
    text: Vec<u8>,
    capacity: usize,
    lost: u64,
}

impl Default for Trace {
    fn default() -> Self {
        Trace::with_capacity(DEFAULT_CAPACITY)
    }
}

impl Trace {
    /// A buffer for `capacity` bytes.
    pub fn with_capacity(capacity: usize) -> Self {
        Trace {
            text: Vec::with_capacity(capacity),
            capacity,
            lost: 0,
        }
    }

    /// Calls `f` with each line since the last time, oldest first, and empties the buffer.
    pub fn drain(&mut self, mut f: impl FnMut(&str)) {
        for line in self.text.split(|&b| b == b'\n') {
            if !line.is_empty() {
                f(&String::from_utf8_lossy(line));
            }
        }
        self.text.clear();
    }

    /// Lines that had no room, since the start.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Adds what `write` writes as one line, or counts it lost.
    pub(crate) fn line(&mut self, write: impl FnOnce(&mut Line<'_>) -> fmt::Result) {
        let before = self.text.len();
        let mut line = Line {
            text: &mut self.text,
            capacity: self.capacity,
        };
        let written = write(&mut line).and_then(|()| match line.text.ends_with(b"\n") {
            true => Ok(()),
            false => fmt::Write::write_char(&mut line, '\n'),
        });
        if written.is_err() {
            self.text.truncate(before);
            self.lost += 1;
        }
    }
}

/// A line being written: an error where there is no room.
pub(crate) struct Line<'a> {
    text: &'a mut Vec<u8>,
    capacity: usize,
}

impl fmt::Write for Line<'_> {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        if self.text.len() + s.len() > self.capacity {
            return Err(fmt::Error);
        }
        self.text.extend_from_slice(s.as_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use super::*;

    #[test]
    fn lines_without_room_are_counted() {
        let mut trace = Trace::with_capacity(10);
        for text in ["ab", "cdef\n", "too long", "g"] {
            trace.line(|l| l.write_str(text));
        }
        let mut lines = Vec::new();
        trace.drain(|l| lines.push(l.to_owned()));
        assert_eq!(lines, ["ab", "cdef", "g"]);
        assert_eq!(trace.lost(), 1);
        trace.line(|l| l.write_str("again"));
        trace.drain(|l| lines.push(l.to_owned()));
        assert_eq!(lines[3], "again");
    }
}
