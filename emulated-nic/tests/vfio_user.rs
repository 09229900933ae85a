//! A NIC behind a socket, as its clients see it: those that follow the protocol, and the others.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use driver_core::{DmaDomain, IovaRanges};
use emulated_nic::vfio_user::{ServeError, Server};
use emulated_nic::{Nic, Running, Variant};
use vfio_user::Client;

const BAR0: u32 = 0;
const IO: u32 = 2;
const CONFIG: u32 = 7;
const MSIX: u32 = 2;
/// Eventfds that a message gives: data is an eventfd, action is a trigger.
const GIVE: u32 = 1 << 2 | 1 << 5;
/// No data, action is a trigger.
const FIRE: u32 = 1 << 0 | 1 << 5;

struct Served {
    nic: Running,
    path: PathBuf,
    _folder: tempfile::TempDir,
}

/// A NIC whose clients are served, whatever they do.
fn serve() -> Served {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("nic.sock");
    let domain = DmaDomain::new(IovaRanges::with_address_bits(48)).unwrap();
    let nic = Nic::builder(Variant::I82599)
        .idle(Duration::from_micros(200))
        .build(domain)
        .spawn(None)
        .unwrap();
    let server = Server::bind(&path, &nic).unwrap();
    std::thread::spawn(move || {
        loop {
            let _ = server.serve_client();
        }
    });
    Served {
        nic,
        path,
        _folder: folder,
    }
}

fn read32(client: &mut Client, region: u32, offset: u64) -> u32 {
    let mut bytes = [0; 4];
    client.region_read(region, offset, &mut bytes).unwrap();
    u32::from_le_bytes(bytes)
}

/// A file of so many pages.
fn memory(pages: u64) -> File {
    let file = tempfile::tempfile().unwrap();
    file.set_len(pages * 4096).unwrap();
    file
}

#[test]
fn a_client_finds_a_pci_function() {
    let served = serve();
    let mut client = Client::new(&served.path).unwrap();
    assert_eq!(read32(&mut client, CONFIG, 0), 0x10fb_8086);
    for (region, size) in [
        (0, 0x8_0000),
        (1, 0),
        (2, 32),
        (4, 0x4000),
        (7, 4096),
        (8, 0),
    ] {
        assert_eq!(client.region(region).unwrap().size, size, "region {region}");
    }
    for (index, count) in [(0, 1), (1, 1), (2, 64), (3, 0), (4, 0)] {
        assert_eq!(
            client.get_irq_info(index).unwrap().count,
            count,
            "interrupts {index}"
        );
    }
    // SW_FW_SYNC through the registers and through the I/O window.
    client
        .region_write(BAR0, 0x10160, &5u32.to_le_bytes())
        .unwrap();
    assert_eq!(read32(&mut client, BAR0, 0x10160), 5);
    client
        .region_write(IO, 0, &0x10160u32.to_le_bytes())
        .unwrap();
    assert_eq!(read32(&mut client, IO, 4), 5);
    let mut two = [0; 2];
    client.region_read(BAR0, 0x10160, &mut two).unwrap();
    assert_eq!(two, [5, 0], "a part of a register can be read");
}

#[test]
fn the_next_client_finds_the_nic_as_after_power_on() {
    let served = serve();
    let mut first = Client::new(&served.path).unwrap();
    first.region_write(CONFIG, 4, &[6, 0]).unwrap();
    first
        .region_write(BAR0, 0x4240, &0x1234u32.to_le_bytes())
        .unwrap();
    first
        .dma_map(0, 0x10000, 4096, memory(1).as_raw_fd())
        .unwrap();
    assert_eq!(read32(&mut first, CONFIG, 4) & 6, 6);
    drop(first);
    let mut second = Client::new(&served.path).unwrap();
    assert_eq!(read32(&mut second, CONFIG, 4) & 6, 0);
    assert_eq!(read32(&mut second, BAR0, 0x4240), 0x0801_2c0b);
}

#[test]
fn interrupts_reach_the_clients_eventfds() {
    let served = serve();
    let mut client = Client::new(&served.path).unwrap();
    let fd = rustix::event::eventfd(0, rustix::event::EventfdFlags::empty()).unwrap();
    client
        .set_irqs(MSIX, GIVE, 5, 1, &[fd.as_raw_fd()])
        .unwrap();
    client.set_irqs(MSIX, FIRE, 5, 1, &[]).unwrap();
    let mut count = [0; 8];
    rustix::io::read(&fd, &mut count).unwrap();
    assert_eq!(u64::from_ne_bytes(count), 1);
    // The same by the NIC itself: MSI-X mode, vector 5 enabled, cause 5 set by software.
    for (register, value) in [(0x898, 1u32 << 4), (0xaa0, 1 << 5), (0xa90, 1 << 5)] {
        client
            .region_write(BAR0, register, &value.to_le_bytes())
            .unwrap();
    }
    rustix::io::read(&fd, &mut count).unwrap();
    assert_eq!(u64::from_ne_bytes(count), 1);
}

/// A message: command, payload.
fn message(command: u16, payload: &[u8]) -> Vec<u8> {
    let size = 16 + payload.len() as u32;
    let mut bytes = vec![0x34, 0x12];
    bytes.extend_from_slice(&command.to_le_bytes());
    bytes.extend_from_slice(&size.to_le_bytes());
    bytes.extend_from_slice(&[0; 8]);
    bytes.extend_from_slice(payload);
    bytes
}

/// The flags and errno of the answer; `None` where the connection has ended.
fn answer(stream: &mut UnixStream) -> Option<(u32, u32)> {
    let mut header = [0; 16];
    stream.read_exact(&mut header).ok()?;
    let word = |at| u32::from_le_bytes(header[at..at + 4].try_into().unwrap());
    let mut rest = vec![0; (word(4) as usize).saturating_sub(16)];
    stream.read_exact(&mut rest).ok()?;
    Some((word(8), word(12)))
}

const IS_ERROR: u32 = 1 << 5;

#[test]
fn wrong_mappings_are_refused() {
    let served = serve();
    let mut stream = UnixStream::connect(&served.path).unwrap();
    // Maps without a file: argsz, flags, offset, address, size.
    let mut map = |offset: u64, address: u64, size: u64| {
        let mut payload = [32u32.to_le_bytes(), 3u32.to_le_bytes()].concat();
        for word in [offset, address, size] {
            payload.extend_from_slice(&word.to_le_bytes());
        }
        stream.write_all(&message(2, &payload)).unwrap();
        answer(&mut stream).unwrap().0 & IS_ERROR == 0
    };
    assert!(map(0, 0x1000, 0x1000));
    for (offset, address, size) in [
        (0, 0x1000, 0x1000),
        (0, 0, 0x3000),
        (0, 0x2001, 0x1000),
        (0, 0x2000, 0x1001),
        (1, 0x2000, 0x1000),
        (0, 0x2000, 0),
        (0, u64::MAX - 0xfff, 0x2000),
    ] {
        assert!(
            !map(offset, address, size),
            "{offset:#x} {address:#x} {size:#x}"
        );
    }
    assert!(map(0, u64::MAX - 0xfff, 0x1000), "the last page of all");
}

#[test]
fn a_file_that_is_too_short_is_not_mapped() {
    let served = serve();
    let mut client = Client::new(&served.path).unwrap();
    // The library's client does not look at errors: what was not mapped can be mapped.
    client
        .dma_map(0, 0x1000, 2 * 4096, memory(1).as_raw_fd())
        .unwrap();
    client
        .dma_map(4096, 0x1000, 4096, memory(1).as_raw_fd())
        .unwrap();
    client
        .dma_map(0, 0x1000, 4096, memory(1).as_raw_fd())
        .unwrap();
    client.dma_unmap(0x1000, 4096).unwrap();
    assert!(served.nic.faults().is_empty());
}

/// The server still answers a client that follows the protocol.
fn still_serves(path: &Path) {
    let mut client = Client::new(path).unwrap();
    assert_eq!(read32(&mut client, CONFIG, 0), 0x10fb_8086);
}

#[test]
fn clients_that_talk_nonsense_do_not_stop_the_next() {
    let served = serve();
    for bytes in [
        // A version message shorter than itself, with text that does not end, with no JSON.
        message(1, &[]),
        message(1, &[0, 0, 1, 0, b'x']),
        message(1, b"\0\0\x01\0{]\0"),
        // Commands that there are not.
        message(0, &[]),
        message(77, &[1, 2, 3]),
        // Accesses outside of regions.
        message(9, &[0xff; 16]),
        // Half a header, half a message.
        vec![1, 2, 3],
        message(2, &[0; 4])[..18].to_vec(),
    ] {
        let mut stream = UnixStream::connect(&served.path).unwrap();
        let _ = stream.write_all(&bytes);
        drop(stream);
        still_serves(&served.path);
    }
}

#[test]
fn random_messages_do_no_harm() {
    let served = serve();
    let mut random = fastrand::Rng::with_seed(11);
    for _ in 0..150 {
        let mut stream = UnixStream::connect(&served.path).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_millis(20)))
            .unwrap();
        for _ in 0..random.usize(1..20) {
            let mut payload =
                vec![0; *random.choice([0, 4, 8, 16, 20, 24, 32, 48].iter()).unwrap()];
            random.fill(&mut payload);
            // Mostly small numbers, as in real messages.
            for byte in &mut payload {
                if random.u8(..4) != 0 {
                    *byte = random.u8(..3);
                }
            }
            if stream
                .write_all(&message(random.u16(..16), &payload))
                .is_err()
            {
                break;
            }
        }
        let _ = answer(&mut stream);
    }
    still_serves(&served.path);
}

#[test]
fn sockets_are_not_taken_from_others() {
    let served = serve();
    let domain = DmaDomain::new(IovaRanges::with_address_bits(48)).unwrap();
    let nic = Nic::builder(Variant::I82599).build(domain);
    let in_use = Server::bind(&served.path, &nic);
    assert!(matches!(in_use, Err(ServeError::InUse { .. })));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let taken = Server::bind(&file, &nic);
    assert!(matches!(taken, Err(ServeError::NotASocket { .. })));
    assert!(file.exists());
    // What a server left behind is replaced.
    let stale = folder.path().join("stale");
    drop(std::os::unix::net::UnixListener::bind(&stale).unwrap());
    let server = Server::bind(&stale, &nic).unwrap();
    drop(server);
    assert!(!stale.exists());
}
