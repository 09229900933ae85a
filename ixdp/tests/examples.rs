//! What README shows.

mod common;

use std::path::Path;

use common::{assert_code, json_lines, output, sample, stdout};

/// Five packets: ARP, TCP, UDP to a closed port, UDP to another, UDP from a blocked address.
#[test]
fn the_firewall_judges_the_five_packets_of_the_readme() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples");
    let run = output([
        "run".as_ref(),
        sample("firewall").as_os_str(),
        "--in".as_ref(),
        examples.join("five.pcap").as_os_str(),
        "--maps".as_ref(),
        examples.join("blocked.json").as_os_str(),
        "--set".as_ref(),
        "closed_port=53".as_ref(),
        "--verdicts".as_ref(),
        "-".as_ref(),
    ]);
    assert_code(&run, 0);
    let lines = json_lines(&stdout(&run));
    let verdicts: Vec<_> = lines[..5].iter().map(|l| &l["verdict"]).collect();
    assert_eq!(verdicts, ["pass", "pass", "drop", "pass", "drop"]);
    let lengths: Vec<_> = lines[..5].iter().map(|l| &l["length"]).collect();
    assert_eq!(lengths, [42, 54, 66, 49, 73]);
}
