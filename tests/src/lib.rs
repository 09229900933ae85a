//! What crosses crates: whole data paths on emulated rings, and the ring benchmark.
//!
//! `cargo test -p ixdp-tests` runs the tests, in a smaller size than `cargo test --release -p ixdp-tests`.
//! `cargo bench -p ixdp-tests --bench ring` counts the instructions of the packet path.
#![forbid(unsafe_code)]
