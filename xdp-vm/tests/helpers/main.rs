//! Helpers and kinds of map on the running kernel and here: small programs in assembler, the same
//! answer and the same packet after from both. Where the kernel may not be asked, the answers that it
//! gave when the test was written hold.

#[allow(dead_code)] // each test file uses its part
#[path = "../verifier/asm.rs"]
mod asm;
#[path = "../verifier/kernel.rs"]
mod kernel;

mod events;
mod fragments;
mod list;
mod locks;
mod maps;
mod network;
mod packet;
mod redirect;
mod syncookie;
mod task;
mod text;

use std::cell::Cell;

use xdp_vm::verifier::{Config, verify};
use xdp_vm::{
    Cpu, Engine, Executable, Map, MapKind, MapSpec, Maps, Options, TestPacket, Update, Verified,
};

thread_local! {
    /// The engine that the test at hand is for.
    static ENGINE: Cell<Engine> = const { Cell::new(Engine::Interpreter) };
}

/// All tests, in one engine.
macro_rules! tests_in {
    ($module:ident, $engine:expr) => {
        tests_in!($module, $engine,
            packet::checksums_of_what_was_and_what_is,
            packet::bytes_are_loaded_and_stored_within_the_packet,
            packet::metadata_grows_and_shrinks_as_in_the_kernel,
            fragments::bytes_are_reached_in_every_buffer,
            fragments::the_end_moves_through_the_buffers,
            redirect::redirects_give_verdicts_and_targets,
            redirect::an_entry_is_told_with_its_value,
            maps::queues_and_stacks_give_values_in_order,
            maps::a_bloom_filter_knows_what_it_saw,
            maps::the_longest_prefix_wins,
            maps::tail_calls_end_after_thirty_three,
            maps::inner_maps_are_found_and_replaced,
            events::perf_events_reach_their_reader,
            events::a_ring_buffer_fills_and_tells,
            events::records_are_reserved_until_the_ring_is_full,
            locks::a_lock_guards_a_value,
            locks::workers_count_under_a_lock,
            network::the_network_answers_for_its_interfaces,
            maps::an_lru_hash_forgets_what_nobody_asks_for,
            events::counters_are_there_where_an_event_is_open,
            text::numbers_are_read_from_text,
            text::texts_are_compared_with_constants,
            text::numbers_are_written_as_text,
            task::the_thread_is_told_as_the_kernel_tells_it,
            syncookie::cookies_answer_for_themselves,
            syncookie::headers_that_are_cut_get_no_cookie
        );
    };
    ($module:ident, $engine:expr, $($file:ident::$test:ident),*) => {
        mod $module {
            $(
                #[test]
                fn $test() {
                    super::ENGINE.set($engine);
                    super::$file::$test();
                }
            )*
        }
    };
}

tests_in!(interpreted, xdp_vm::Engine::Interpreter);
tests_in!(compiled, xdp_vm::Engine::Auto);

fn map(kind: MapKind, key_size: u32, value_size: u32, max_entries: u32) -> MapSpec {
    MapSpec {
        name: "m".into(),
        kind,
        key_size,
        value_size,
        max_entries,
        ..MapSpec::default()
    }
}

/// Constants of a program, as `.rodata` holds them.
fn rodata(bytes: &[u8]) -> MapSpec {
    MapSpec {
        name: ".rodata".into(),
        initial: Some(bytes.to_vec()),
        frozen: true,
        flags: 0x80,
        ..map(MapKind::Array, 4, bytes.len() as u32, 1)
    }
}

/// A program here, and in the kernel where it may be asked.
struct Both {
    cpu: Cpu,
    maps: Maps,
    program: Executable,
    kernel: Option<kernel::Loaded>,
}

fn executable(verified: &Verified, maps: &Maps) -> Executable {
    let options = Options {
        engine: ENGINE.get(),
        ..Options::default()
    };
    Executable::with_options(verified, maps, &options).unwrap()
}

impl Both {
    fn new(text: &str, maps: &[MapSpec]) -> Self {
        Both::for_cpus(text, maps, 1)
    }

    fn for_cpus(text: &str, maps: &[MapSpec], cpus: usize) -> Self {
        let program = asm::program(text);
        let (verified, _) =
            verify(&program, maps, &Config::default()).unwrap_or_else(|e| panic!("{text}\n{e}"));
        let kernel = kernel::may_be_asked().then(|| {
            let loaded = kernel::load(&program, maps).unwrap();
            loaded.unwrap_or_else(|log| panic!("{text}\n{log}"))
        });
        let maps = Maps::create(maps, cpus).unwrap();
        Both {
            cpu: Cpu::new(0),
            program: executable(&verified, &maps),
            maps,
            kernel,
        }
    }

    fn map(&self) -> &Map {
        self.maps.at(0).unwrap()
    }

    /// Sets an entry in both.
    fn set(&self, key: &[u8], value: &[u8]) {
        self.map().update(key, value, Update::Any).unwrap();
        if let Some(kernel) = &self.kernel {
            kernel.update(0, key, value).unwrap();
        }
    }

    /// What it returns here, and the packet after, its metadata before it.
    fn run_here(&mut self, packet: &[u8]) -> (u32, Vec<u8>) {
        let mut packet = TestPacket::new(packet).unwrap();
        let r0 = packet.run(&self.program, &mut self.cpu).unwrap();
        (r0, packet.bytes())
    }

    /// The same in the kernel, where it may be asked.
    fn run_there(&self, packet: &[u8]) -> Option<(u32, Vec<u8>)> {
        self.kernel.as_ref().map(|k| k.run(packet).unwrap())
    }

    /// What both return, and the packet after, its metadata before it, which are the same.
    fn run(&mut self, packet: &[u8]) -> (u32, Vec<u8>) {
        let ours = self.run_here(packet);
        if let Some(theirs) = self.run_there(packet) {
            assert_eq!(
                (ours.0.cast_signed(), &ours.1),
                (theirs.0.cast_signed(), &theirs.1),
                "ours, the kernel's"
            );
        }
        ours
    }
}

/// What a program without maps returns on 64 bytes.
fn r0(text: &str) -> i32 {
    let packet: Vec<u8> = (0..64u8)
        .map(|n| n.wrapping_mul(7).wrapping_add(1))
        .collect();
    Both::new(text, &[]).run(&packet).0.cast_signed()
}
