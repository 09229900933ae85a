//! Frames on their way between a wire and a NIC: many in one buffer, so that moving them costs
//! neither an allocation nor a call each.

/// Longest frame that fits a batch, without its checksum (FCS).
pub const MAX_FRAME: usize = 16 << 10;
/// Frames that a batch for the wire holds.
pub(crate) const FRAMES: usize = 64;
/// Frames start on a multiple of this, which makes copying cheap.
const ALIGN: usize = 16;

/// A buffer full of frames, in order. Frames carry no checksum (FCS); that it would be wrong is a
/// mark on the frame.
#[derive(Debug, Default)]
pub struct FrameBatch {
    bytes: Box<[u8]>,
    entries: Vec<Entry>,
    /// Frames taken from the front.
    taken: usize,
    /// Bytes in use.
    used: usize,
    /// Bytes of frames that are still to be taken.
    waiting: usize,
    max_frames: usize,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    start: u32,
    len: u16,
    bad_fcs: bool,
}

/// A frame of a batch.
#[derive(Clone, Copy, Debug)]
pub struct WireFrame<'a> {
    /// Its bytes, from the destination address to the last byte before the checksum (FCS).
    pub data: &'a [u8],
    /// Its checksum (FCS) is wrong.
    pub bad_fcs: bool,
}

impl FrameBatch {
    /// A batch of the size that wires and NICs exchange.
    pub fn new() -> Self {
        FrameBatch::with_capacity(4 * MAX_FRAME, FRAMES)
    }

    /// A batch of at most `bytes` bytes and `frames` frames.
    pub(crate) fn with_capacity(bytes: usize, frames: usize) -> Self {
        FrameBatch {
            bytes: vec![0; bytes].into_boxed_slice(),
            entries: Vec::with_capacity(frames),
            taken: 0,
            used: 0,
            waiting: 0,
            max_frames: frames,
        }
    }

    /// Makes room for a frame of `len` bytes at the end and gives it to be written: what is in it
    /// before is unspecified. `None` where it does not fit, which leaves the batch as it was.
    #[inline]
    pub fn append(&mut self, len: usize) -> Option<&mut [u8]> {
        if self.entries.len() == self.max_frames || len > MAX_FRAME {
            return None;
        }
        let start = self.used;
        let data = self.bytes.get_mut(start..start + len)?;
        self.entries.push(Entry {
            start: start as u32,
            len: len as u16,
            bad_fcs: false,
        });
        self.used = (start + len).next_multiple_of(ALIGN);
        self.waiting += len;
        Some(data)
    }

    /// Copies a frame to the end. False where it does not fit.
    #[inline]
    pub fn push(&mut self, frame: &[u8]) -> bool {
        match self.append(frame.len()) {
            Some(room) => {
                room.copy_from_slice(frame);
                true
            }
            None => false,
        }
    }

    /// Marks the checksum (FCS) of the frame appended last as wrong.
    pub fn spoil_fcs(&mut self) {
        if let Some(last) = self.entries.last_mut() {
            last.bad_fcs = true;
        }
    }

    /// True where a frame of `len` bytes would fit.
    #[inline]
    pub fn fits(&self, len: usize) -> bool {
        self.entries.len() < self.max_frames && self.used + len <= self.bytes.len()
    }

    /// True where `frames` frames of `bytes` bytes together would fit.
    pub(crate) fn fits_frames(&self, frames: usize, bytes: usize) -> bool {
        let padded = bytes + frames * ALIGN;
        self.entries.len() + frames <= self.max_frames && self.used + padded <= self.bytes.len()
    }

    /// Frames not taken yet.
    #[inline]
    pub fn len(&self) -> usize {
        self.entries.len() - self.taken
    }

    /// True where every frame was taken.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.taken == self.entries.len()
    }

    /// Bytes of the frames not taken yet.
    pub fn waiting_bytes(&self) -> usize {
        self.waiting
    }

    /// The frame at the front.
    #[inline]
    pub fn front(&self) -> Option<WireFrame<'_>> {
        self.get(0)
    }

    /// The `i`-th frame from the front.
    #[inline]
    pub fn get(&self, i: usize) -> Option<WireFrame<'_>> {
        let e = self.entries.get(self.taken + i)?;
        Some(WireFrame {
            data: &self.bytes[e.start as usize..e.start as usize + e.len as usize],
            bad_fcs: e.bad_fcs,
        })
    }

    /// The frame appended last.
    pub(crate) fn last_mut(&mut self) -> Option<&mut [u8]> {
        let e = self.entries.last()?;
        Some(&mut self.bytes[e.start as usize..e.start as usize + e.len as usize])
    }

    /// Takes the frame appended last out again, and writes a new one of `len` bytes in its place,
    /// whose first bytes are the old one's. False where that does not fit.
    pub(crate) fn resize_last(&mut self, len: usize) -> bool {
        let Some(e) = self.entries.last_mut() else {
            return false;
        };
        let (start, old) = (e.start as usize, e.len as usize);
        if len > MAX_FRAME || start + len > self.bytes.len() {
            return false;
        }
        e.len = len as u16;
        if len > old {
            self.bytes[start + old..start + len].fill(0);
        }
        self.used = (start + len).next_multiple_of(ALIGN);
        self.waiting = self.waiting + len - old;
        true
    }

    /// Drops the frame appended last.
    pub(crate) fn pop_last(&mut self) {
        if let Some(e) = self.entries.pop() {
            self.used = e.start as usize;
            self.waiting -= e.len as usize;
        }
    }

    /// The frames not taken yet, first to last.
    pub fn iter(&self) -> impl Iterator<Item = WireFrame<'_>> {
        (0..self.len()).filter_map(|i| self.get(i))
    }

    /// Takes `n` frames from the front.
    #[inline]
    pub fn take(&mut self, n: usize) {
        let n = n.min(self.len());
        for e in &self.entries[self.taken..self.taken + n] {
            self.waiting -= e.len as usize;
        }
        self.taken += n;
        if self.is_empty() {
            self.clear();
        }
    }

    /// Forgets all frames.
    #[inline]
    pub fn clear(&mut self) {
        self.entries.clear();
        self.taken = 0;
        self.used = 0;
        self.waiting = 0;
    }

    /// Moves the frames not taken to the start of the buffer, so that all room is behind them.
    pub(crate) fn compact(&mut self) {
        if self.taken == 0 {
            return;
        }
        let Some(first) = self.entries.get(self.taken).map(|e| e.start) else {
            return self.clear();
        };
        self.bytes
            .copy_within(first as usize..self.used.min(self.bytes.len()), 0);
        self.entries.drain(..self.taken);
        for e in &mut self.entries {
            e.start -= first;
        }
        self.used -= first as usize;
        self.taken = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_out_as_they_went_in() {
        let mut b = FrameBatch::with_capacity(256, 4);
        for n in [60, 61, 14] {
            assert!(b.push(&vec![n as u8; n]));
        }
        b.spoil_fcs();
        assert_eq!((b.len(), b.waiting_bytes()), (3, 135));
        b.take(1);
        let f = b.front().unwrap();
        assert!(f.data == [61; 61] && !f.bad_fcs);
        assert!(b.get(1).unwrap().bad_fcs && b.get(2).is_none());
        assert!(!b.push(&[0; 200]), "no room");
        b.compact();
        assert_eq!(b.front().unwrap().data, [61; 61]);
        assert_eq!(b.get(1).unwrap().data, [14; 14]);
        assert!(
            b.push(&[7; 60]) && b.push(&[8; 60]) && !b.push(&[9; 1]),
            "four frames"
        );
        b.take(4);
        assert!(b.is_empty() && b.waiting_bytes() == 0 && b.fits(256));
    }

    #[test]
    fn the_last_frame_can_grow_and_shrink() {
        let mut b = FrameBatch::with_capacity(64, 4);
        b.push(&[1; 40]);
        assert!(b.resize_last(60) && !b.resize_last(65));
        assert_eq!(&b.front().unwrap().data[39..41], [1, 0]);
        assert!(b.resize_last(8));
        assert_eq!(
            (b.front().unwrap().data, b.waiting_bytes()),
            (&[1; 8][..], 8)
        );
        b.pop_last();
        assert!(b.is_empty() && b.fits(64));
    }
}
