//! What the device said of a packet, and the kernel functions that are refused by name. The kernel has
//! the former only for programs bound to a device, so its source says what holds. Needs clang; without it
//! each test says so and passes.

mod common;

#[path = "common/clang.rs"]
mod clang;

use xdp_vm::metadata::{PacketHash, VlanTag, rss};
use xdp_vm::verifier::{Config, verify};
use xdp_vm::{Cpu, Engine, Errno, Executable, Maps, Metadata, Object, Options, XdpBuff};

fn load(name: &str, source: &str) -> Option<Object> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name).with_extension("c");
    std::fs::write(&path, source).unwrap();
    match clang::compile("clang", "v3", &path) {
        Ok(bytes) => Some(Object::parse(&bytes).unwrap()),
        Err(reason) => {
            eprintln!("skipped: {reason}; install clang and libbpf-dev");
            None
        }
    }
}

const HEAD: &str = r#"
    #include <linux/bpf.h>
    #include <bpf/bpf_helpers.h>
"#;

/// A device that knows everything, or nothing.
#[derive(Debug)]
struct Device(Result<(), Errno>);

impl Metadata for Device {
    fn timestamp(&self) -> Result<u64, Errno> {
        self.0.map(|()| 0x1122_3344_5566_7788)
    }

    fn hash(&self) -> Result<PacketHash, Errno> {
        let covers = rss::IPV4 | rss::L4 | rss::TCP;
        self.0.map(|()| PacketHash {
            value: 0xdead_beef,
            covers,
        })
    }

    fn vlan_tag(&self) -> Result<VlanTag, Errno> {
        self.0.map(|()| VlanTag {
            protocol: 0x8100,
            tag: 0x2064,
        })
    }
}

/// A device that has nothing to override.
#[derive(Debug)]
struct Plain;

impl Metadata for Plain {}

#[test]
fn what_the_device_says_reaches_the_program() {
    let source = format!(
        "{HEAD}{}",
        r#"
        extern int bpf_xdp_metadata_rx_timestamp(const struct xdp_md *ctx, __u64 *timestamp) __ksym;
        extern int bpf_xdp_metadata_rx_hash(const struct xdp_md *ctx, __u32 *hash, __u32 *type) __ksym;
        extern int bpf_xdp_metadata_rx_vlan_tag(const struct xdp_md *ctx, __be16 *proto, __u16 *tci)
            __ksym __attribute__((weak));
        struct said { __u64 timestamp; __u32 hash, type; __be16 proto; __u16 tci; __u32 errors; };
        SEC("xdp") int hints(struct xdp_md *ctx) {
            struct said *said = (void *)(long)ctx->data;
            if ((void *)(said + 1) > (void *)(long)ctx->data_end) return XDP_DROP;
            __u32 errors = -bpf_xdp_metadata_rx_timestamp(ctx, &said->timestamp);
            errors = errors << 8 | -bpf_xdp_metadata_rx_hash(ctx, &said->hash, &said->type);
            if (bpf_xdp_metadata_rx_vlan_tag)
                errors = errors << 8 | -bpf_xdp_metadata_rx_vlan_tag(ctx, &said->proto, &said->tci);
            said->errors = errors;
            return XDP_PASS;
        }
        SEC("xdp") int none(struct xdp_md *ctx) { return XDP_PASS; }
        "#
    );
    let Some(object) = load("hints", &source) else {
        return;
    };
    assert!(object.rejected.is_empty(), "{:?}", object.rejected);
    for engine in [Engine::Interpreter, Engine::Auto] {
        let executable = |name: &str| {
            let program = object.program(Some(name)).unwrap();
            let verified = verify(program, &object.maps, &Config::default()).unwrap();
            let maps = Maps::create(&object.maps, 1).unwrap();
            let options = Options {
                engine,
                ..Options::default()
            };
            Executable::with_options(&verified.0, &maps, &options).unwrap()
        };
        assert!(!executable("none").reads_metadata());
        let hints = executable("hints");
        assert!(hints.reads_metadata());
        let run = |device: Option<&dyn Metadata>| {
            let mut buffer = [0x55; 512];
            let mut buff = XdpBuff::new(&mut buffer, 64, 64).unwrap();
            if let Some(device) = device {
                buff.set_metadata(device);
            }
            assert_eq!(hints.run(&mut Cpu::new(0), &mut buff), common::PASS);
            buff.packet()[..24].to_vec()
        };
        let all = run(Some(&Device(Ok(()))));
        let expected = [
            &0x1122_3344_5566_7788u64.to_le_bytes()[..],
            &0xdead_beefu32.to_le_bytes(),
            &25u32.to_le_bytes(),
            &[0x81, 0x00, 0x64, 0x20],
            &[0; 4],
        ]
        .concat();
        assert_eq!(all, expected);
        // Errors leave what was there.
        for (device, errno) in [
            (Some(&Device(Err(Errno::ENODATA)) as &dyn Metadata), 61),
            (Some(&Plain), 95),
            (None, 95),
        ] {
            let errors = [errno, errno, errno, 0];
            assert_eq!(run(device), [&[0x55; 20][..], &errors].concat());
        }
    }
}

#[test]
fn tables_of_the_kernel_are_refused_by_name() {
    let source = format!(
        "{HEAD}{}",
        r#"
        struct nf_conn; struct flow_offload_tuple_rhash;
        extern struct nf_conn *bpf_xdp_ct_lookup(struct xdp_md *ctx, void *tuple, __u32 size,
            void *opts, __u32 opts_size) __ksym;
        extern void bpf_ct_release(struct nf_conn *) __ksym;
        extern void *bpf_xdp_flow_lookup(struct xdp_md *ctx, void *tuple, void *opts, __u32 size)
            __ksym __attribute__((weak));
        SEC("xdp") int strong(struct xdp_md *ctx) {
            __u64 tuple[2] = {}, opts[2] = {};
            struct nf_conn *ct = bpf_xdp_ct_lookup(ctx, tuple, 12, opts, 12);
            if (!ct) return XDP_PASS;
            bpf_ct_release(ct);
            return XDP_DROP;
        }
        SEC("xdp") int weak(struct xdp_md *ctx) {
            __u64 tuple[2] = {}, opts[2] = {};
            if (!bpf_xdp_flow_lookup) return XDP_TX;
            return bpf_xdp_flow_lookup(ctx, tuple, opts, 12) ? XDP_PASS : XDP_DROP;
        }
        "#
    );
    let Some(object) = load("tables", &source) else {
        return;
    };
    let refusal = verify(
        object.program(Some("strong")).unwrap(),
        &object.maps,
        &Config::default(),
    )
    .unwrap_err();
    let text = refusal.to_string();
    assert!(text.contains("bpf_xdp_ct_lookup"), "{text}");
    assert!(text.contains("connections"), "{text}");
    assert!(refusal.cause.remedy().contains("hash map"));
    let mut weak = common::Bench::new(&object, Some("weak"));
    assert_eq!(weak.run(&[0; 64]).0, common::TX, "its address is null");
}
