//! The Ethernet frame check sequence: CRC-32 (IEEE 802.3, 3.2.9).

const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 256 {
        let mut value = i as u32;
        let mut bit = 0;
        while bit < 8 {
            value = if value & 1 != 0 {
                value >> 1 ^ 0xedb8_8320
            } else {
                value >> 1
            };
            bit += 1;
        }
        table[i] = value;
        i += 1;
    }
    table
};

/// The check sequence of a frame; it is sent with its low byte first.
pub(crate) fn fcs(frame: &[u8]) -> u32 {
    !frame.iter().fold(u32::MAX, |crc, b| {
        crc >> 8 ^ TABLE[(crc as u8 ^ b) as usize]
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_check_value_of_the_standard() {
        assert_eq!(super::fcs(b"123456789"), 0xcbf4_3926);
    }
}
