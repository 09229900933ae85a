//! `ixdp prog show`.

mod common;

use common::{assert_code, json_lines, output, sample, stderr, stdout};

fn show(more: &[&str]) -> std::process::Output {
    output([&["prog", "show"], more].concat())
}

#[test]
fn programs_maps_and_variables_are_listed() {
    let firewall = sample("firewall");
    let run = show(&[firewall.to_str().unwrap()]);
    assert_code(&run, 0);
    let text = stdout(&run);
    for line in [
        "program firewall: section xdp, 60 instructions\n",
        "blocked: hash, key __be32 (4), value __u64 (8), 1,024 entries, ",
        ".rodata: array, ",
        "    closed_port: __u16, 2 bytes at 0\n",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    let lines = json_lines(&stdout(&show(&[
        firewall.to_str().unwrap(),
        "--format",
        "json",
    ])));
    let map = lines.iter().find(|l| l["map"] == "blocked").unwrap();
    assert_eq!(
        (&map["key_size"], &map["max_entries"]),
        (&4.into(), &1024.into())
    );
}

#[test]
fn instructions_stand_beside_their_lines_and_code() {
    let drop = sample("drop");
    let named = format!("{}:xdp_drop", drop.display());
    let listed = stdout(&show(&[drop.to_str().unwrap(), "--format", "json"]));
    let name = json_lines(&listed)[0]["program"]
        .as_str()
        .unwrap()
        .to_owned();
    let named = named.replace("xdp_drop", &name);
    let run = show(&[&named]);
    assert_code(&run, 0);
    let text = stdout(&run);
    let source = text.find("; drop.bpf.c:").unwrap();
    let insn = text.find("w0 = 1").unwrap();
    assert!(source < insn, "{text}");
    if cfg!(target_arch = "x86_64") {
        let run = show(&[&named, "--jit", "--format", "json"]);
        assert_code(&run, 0);
        let line = json_lines(&stdout(&run)).remove(0);
        let listing = line["listing"].as_array().unwrap();
        let constant = listing.iter().find(|i| i["text"] == "w0 = 1").unwrap();
        // mov eax, 1: opcode b8 and the constant.
        let code = constant["code"].as_array().unwrap();
        assert_eq!(code[..5], [0xb8, 1, 0, 0, 0].map(serde_json::Value::from));
    }
}

#[test]
fn what_is_not_there_is_said() {
    let mixed = sample("mixed");
    let run = show(&[&format!("{}:lotery", mixed.display())]);
    assert_code(&run, 1);
    assert!(stderr(&run).contains("lottery"), "{}", stderr(&run));
}
