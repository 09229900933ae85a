//! Receive-side scaling: key, table, and which fields are hashed.

use driver_core::RssConfig;

use crate::error::Error;
use crate::family::Family;
use crate::hw::Hw;
use crate::registers::*;

/// The queue of each table entry. With more queue pairs than RSS can name (16 on 82599 and X540), it
/// spreads over those it can; the others get nothing from it.
pub(crate) fn table(rss: &RssConfig, pairs: u16, family: &Family) -> Result<Vec<u8>, Error> {
    let reach = pairs.min(family.rss_queues);
    if rss.table.len() > family.rss_table {
        return Err(Error::RssTable {
            asked: rss.table.len(),
            max: family.rss_table,
            name: family.name,
        });
    }
    let last = reach.saturating_sub(1);
    if let Some((entry, &queue)) = rss.table.iter().enumerate().find(|(_, q)| **q > last) {
        return Err(Error::RssQueue { entry, queue, last });
    }
    let queue = |entry: usize| match rss.table.len() {
        0 => (entry % usize::from(reach.max(1))) as u8,
        n => rss.table[entry % n] as u8,
    };
    Ok((0..family.rss_table).map(queue).collect())
}

/// Writes key and table, and turns hashing on: with one queue too, since the hash is metadata. The
/// descriptor then carries it in place of a fragment's checksum.
pub(crate) fn write(hw: &Hw, key: &[u8; 40], table: &[u8]) -> Result<(), Error> {
    for (i, word) in (0..).zip(key.chunks_exact(4)) {
        hw.write(RSSRK(i), word_of(word));
    }
    for (i, word) in (0..).zip(table.chunks_exact(4)) {
        let register = if i < 32 { RETA(i) } else { ERETA(i - 32) };
        hw.write(register, word_of(word));
    }
    hw.modify(RXCSUM, |v| v | Rxcsum::PCSD)?;
    let fields = Mrqc::TCPV4 | Mrqc::IPV4 | Mrqc::IPV6 | Mrqc::TCPV6 | Mrqc::UDPV4 | Mrqc::UDPV6;
    hw.write(MRQC, Mrqc::RSS | fields);
    Ok(())
}

fn word_of(bytes: &[u8]) -> u32 {
    bytes
        .iter()
        .rev()
        .fold(0, |word, b| word << 8 | u32::from(*b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    fn config(table: &[u16]) -> RssConfig {
        RssConfig {
            table: table.to_vec(),
            ..RssConfig::default()
        }
    }

    #[test]
    fn tables_repeat_and_stay_within_reach() {
        let (small, large) = (testing::family(0x10fb), testing::family(0x1563));
        let of = |t: &[u16], pairs, family| table(&config(t), pairs, family);
        let t = of(&[], 4, small).unwrap();
        assert_eq!((t.len(), &t[..6]), (128, &[0, 1, 2, 3, 0, 1][..]));
        assert_eq!(of(&[], 64, small).unwrap().iter().max(), Some(&15));
        let t = of(&[], 64, large).unwrap();
        assert_eq!((t.len(), t[511]), (512, 63));
        assert_eq!(of(&[2, 0, 1], 3, small).unwrap()[..4], [2, 0, 1, 2]);
        assert!(matches!(
            of(&[0, 16], 32, small),
            Err(Error::RssQueue {
                entry: 1,
                queue: 16,
                last: 15
            })
        ));
        assert!(of(&[16], 32, large).is_ok());
        assert!(matches!(of(&[3], 3, large), Err(Error::RssQueue { .. })));
        assert!(matches!(
            of(&[0; 129], 1, small),
            Err(Error::RssTable { max: 128, .. })
        ));
    }

    #[test]
    fn key_and_table_bytes_are_little_endian_words() {
        let (hw, device) = testing::hw(0x1563);
        let key = std::array::from_fn(|i| i as u8);
        let table: Vec<u8> = (0..512).map(|i| (i % 64) as u8).collect();
        write(&hw, &key, &table).unwrap();
        assert_eq!(device.register(0xeb80), 0x0302_0100);
        assert_eq!(device.register(0xeba4), 0x2726_2524);
        assert_eq!(device.register(0xeb00 + 4 * 31), 0x3f3e_3d3c);
        assert_eq!(device.register(0xee80), 0x0302_0100);
        assert_eq!(device.register(0xee80 + 4 * 95), 0x3f3e_3d3c);
        assert_eq!(device.register(0xec80), 0x00f3_0001);
        assert_eq!(device.register(0x5000) & 1 << 13, 1 << 13);
    }
}
