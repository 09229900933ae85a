//! Which threads there are and on which CPUs they run.

use driver_core::allowed_cpus;

use crate::cli::args::{DeviceOptions, LoadOptions};
use crate::cli::failure::Failure;

/// The threads of a run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Threads {
    /// Worker threads.
    pub(crate) workers: usize,
    /// CPUs of the workers, then of the model; empty where the scheduler places them.
    pub(crate) pin: Vec<usize>,
}

/// Makes `--queues`, `--cores` and `--pin` one plan.
pub(crate) fn plan(device: &DeviceOptions, load: &LoadOptions) -> Result<Threads, Failure> {
    let pin = load.pin.as_ref().map(|list| &list.0[..]);
    place(
        device.queues.into(),
        load.cores.map(usize::from),
        pin,
        &allowed_cpus()?,
    )
}

fn place(
    queues: usize,
    cores: Option<usize>,
    pin: Option<&[usize]>,
    cpus: &[usize],
) -> Result<Threads, Failure> {
    if let Some(cores) = cores.filter(|c| *c > queues) {
        return Err(Failure::usage(
            format!(
                "--cores {cores} is more than --queues {queues}: a queue belongs to one worker"
            ),
            format!("use --queues {cores}, or fewer cores"),
        ));
    }
    let Some(pin) = pin else {
        let workers = cores.unwrap_or_else(|| queues.min(cpus.len().saturating_sub(1)).max(1));
        let enough = cpus.len() > workers;
        let pin = if enough {
            cpus[..=workers].to_vec()
        } else {
            Vec::new()
        };
        return Ok(Threads { workers, pin });
    };
    if let Some(cpu) = pin.iter().find(|c| !cpus.contains(c)) {
        let may: Vec<_> = cpus.iter().map(usize::to_string).collect();
        return Err(Failure::usage(
            format!("--pin names CPU {cpu}, on which this process may not run"),
            format!("there are: {}", may.join(",")),
        ));
    }
    let workers = cores.unwrap_or((pin.len() - 1).clamp(1, queues));
    if pin.len() != workers + 1 {
        return Err(Failure::usage(
            format!(
                "--pin names {} CPUs, and {} are needed: {workers} for workers and one for the model",
                pin.len(),
                workers + 1
            ),
            "name one CPU a worker thread (--cores), then one for the model",
        ));
    }
    Ok(Threads {
        workers,
        pin: pin.to_vec(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ok(queues: usize, cores: Option<usize>, pin: Option<&[usize]>, cpus: &[usize]) -> Threads {
        place(queues, cores, pin, cpus).unwrap()
    }

    fn threads(workers: usize, pin: &[usize]) -> Threads {
        Threads {
            workers,
            pin: pin.to_vec(),
        }
    }

    #[test]
    fn each_thread_gets_a_cpu_where_there_are_enough() {
        let cpus = [1, 3, 4, 7];
        assert_eq!(ok(1, None, None, &cpus), threads(1, &[1, 3]));
        assert_eq!(ok(8, None, None, &cpus), threads(3, &cpus));
        assert_eq!(ok(8, Some(4), None, &cpus), threads(4, &[]));
        assert_eq!(ok(8, None, None, &[0]), threads(1, &[]));
    }

    #[test]
    fn a_list_is_taken_as_it_stands() {
        let cpus = [0, 1, 2, 3];
        assert_eq!(ok(2, None, Some(&[3, 0]), &cpus), threads(1, &[3, 0]));
        assert_eq!(
            ok(2, Some(2), Some(&[2, 1, 0]), &cpus),
            threads(2, &[2, 1, 0])
        );
    }

    #[test]
    fn contradictions_are_wrong_usage() {
        let cpus = [0, 1, 2, 3];
        for (queues, cores, pin) in [
            (1, Some(2), None),
            (1, None, Some(&[0][..])),
            (1, None, Some(&[0, 1, 2][..])),
            (2, Some(1), Some(&[0, 1, 2][..])),
            (1, None, Some(&[0, 4][..])),
        ] {
            let failure = place(queues, cores, pin, &cpus).unwrap_err();
            assert!(matches!(failure, Failure::Usage { .. }), "{failure:?}");
        }
    }
}
