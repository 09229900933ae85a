//! Lists of CPUs as `taskset` and the kernel write them: `0,2-3`.

use std::str::FromStr;

/// CPUs in the order they were written, each once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CpuList(pub(crate) Vec<usize>);

impl FromStr for CpuList {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut cpus = Vec::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (number(first)?, number(last)?);
            if first > last {
                return Err(format!("the range {part} runs backwards"));
            }
            for cpu in first..=last {
                if cpus.contains(&cpu) {
                    return Err(format!("CPU {cpu} is named twice"));
                }
                cpus.push(cpu);
            }
        }
        Ok(CpuList(cpus))
    }
}

/// Most that Linux numbers; also bounds what a range can expand to.
const MAX_CPU: usize = 8191;

fn number(text: &str) -> Result<usize, String> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let number = digits.then(|| text.parse().ok()).flatten();
    number
        .filter(|n| *n <= MAX_CPU)
        .ok_or_else(|| format!("`{text}` is no CPU number; write a list as in 0,2-3"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_ranges_keep_their_order() {
        let list = |s: &str| s.parse::<CpuList>().map(|l| l.0);
        assert_eq!(list("4"), Ok(vec![4]));
        assert_eq!(list("3,0-2"), Ok(vec![3, 0, 1, 2]));
        for bad in [
            "",
            ",",
            "1,",
            "a",
            "-1",
            "1-",
            "3-2",
            "0,0",
            "0-3,2",
            "+1",
            "0-99999",
            "18446744073709551616",
        ] {
            assert!(list(bad).is_err(), "{bad}");
        }
    }
}
