//! What a user calls a device: `emu:82599`, a PCI address, a socket. Parsed before anything is
//! opened, so that a wrong argument is told apart from a device that fails.

use std::fmt;
use std::str::FromStr;

/// A device as the user named it.
///
/// ```
/// use ixdp::{DeviceArg, Model};
///
/// let device: DeviceArg = "emu:x540,loss=0.01,seed=7".parse()?;
/// assert_eq!(device.model, Model::X540);
/// assert_eq!(device.impairments.loss, 0.01);
/// assert_eq!(device.to_string(), "emu:x540,loss=0.01,seed=7");
/// # Ok::<(), ixdp::DeviceArgError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DeviceArg {
    /// Which model.
    pub model: Model,
    /// What the wire between the model and the traffic does to frames.
    pub impairments: Impairments,
    /// The caller advances the model in virtual time; it gets no thread of its own.
    pub stepped: bool,
}

/// The NICs that are modelled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Model {
    /// Intel 82599.
    #[default]
    I82599,
    /// Intel X540.
    X540,
    /// Intel X550.
    X550,
}

/// Faults of a wire: shares of frames, each from 0 to 1, drawn with one seed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Impairments {
    /// Share of frames that never arrive.
    pub loss: f64,
    /// Share of frames that arrive twice.
    pub duplicate: f64,
    /// Share of frames that arrive after the one behind them.
    pub reorder: f64,
    /// Start of the draw: the same seed gives the same faults.
    pub seed: u64,
}

/// Text that names no device which can be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum DeviceArgError {
    #[error(
        "{0} is a PCI device: this version drives emulated devices only; use emu:82599, emu:x540 or emu:x550"
    )]
    Pci(String),
    #[error(
        "{0} is a device behind a vfio-user socket: this version drives emulated devices only; use emu:82599, emu:x540 or emu:x550"
    )]
    VfioUser(String),
    #[error("there is no model `{0}`; there are emu:82599, emu:x540 and emu:x550")]
    Model(String),
    #[error(
        "a device has no option `{0}`; there are loss=SHARE, dup=SHARE, reorder=SHARE, seed=NUMBER and step"
    )]
    Option(String),
    #[error("option {key} is given twice")]
    Twice { key: &'static str },
    #[error("`{value}` is not {wanted}, as option {key} needs")]
    Value {
        key: &'static str,
        value: String,
        wanted: &'static str,
    },
    #[error("`{0}` names no device; there are emu:82599, emu:x540 and emu:x550")]
    Unknown(String),
}

impl Model {
    /// All models.
    pub const ALL: [Model; 3] = [Model::I82599, Model::X540, Model::X550];

    /// Its name behind `emu:`.
    pub fn name(self) -> &'static str {
        match self {
            Model::I82599 => "82599",
            Model::X540 => "x540",
            Model::X550 => "x550",
        }
    }
}

impl FromStr for DeviceArg {
    type Err = DeviceArgError;

    fn from_str(text: &str) -> Result<Self, DeviceArgError> {
        if text.strip_prefix("vfio-user:").is_some() {
            return Err(DeviceArgError::VfioUser(text.to_owned()));
        }
        if is_pci_address(text) {
            return Err(DeviceArgError::Pci(text.to_owned()));
        }
        let Some(rest) = text.strip_prefix("emu:") else {
            return Err(DeviceArgError::Unknown(text.to_owned()));
        };
        let mut parts = rest.split(',');
        let name = parts.next().unwrap_or_default();
        let model = Model::ALL.into_iter().find(|m| m.name() == name);
        let model = model.ok_or_else(|| DeviceArgError::Model(name.to_owned()))?;
        let mut options = Options::default();
        parts.try_for_each(|part| options.read(part))?;
        Ok(DeviceArg {
            model,
            impairments: Impairments {
                loss: options.loss.unwrap_or(0.0),
                duplicate: options.dup.unwrap_or(0.0),
                reorder: options.reorder.unwrap_or(0.0),
                seed: options.seed.unwrap_or(0),
            },
            stepped: options.step.is_some(),
        })
    }
}

/// The options behind a model's name, each at most once.
#[derive(Default)]
struct Options {
    loss: Option<f64>,
    dup: Option<f64>,
    reorder: Option<f64>,
    seed: Option<u64>,
    step: Option<()>,
}

impl Options {
    fn read(&mut self, part: &str) -> Result<(), DeviceArgError> {
        match part.split_once('=') {
            Some(("loss", v)) => once("loss", &mut self.loss, share("loss", v)?),
            Some(("dup", v)) => once("dup", &mut self.dup, share("dup", v)?),
            Some(("reorder", v)) => once("reorder", &mut self.reorder, share("reorder", v)?),
            Some(("seed", v)) => {
                let number = v.parse().map_err(|_| DeviceArgError::Value {
                    key: "seed",
                    value: v.to_owned(),
                    wanted: "a number from 0 to 18446744073709551615",
                })?;
                once("seed", &mut self.seed, number)
            }
            None if part == "step" => once("step", &mut self.step, ()),
            _ => Err(DeviceArgError::Option(part.to_owned())),
        }
    }
}

fn once<T>(key: &'static str, slot: &mut Option<T>, value: T) -> Result<(), DeviceArgError> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(DeviceArgError::Twice { key }),
    }
}

fn share(key: &'static str, text: &str) -> Result<f64, DeviceArgError> {
    let share = text.parse::<f64>().ok();
    share
        .filter(|s| (0.0..=1.0).contains(s))
        .ok_or_else(|| DeviceArgError::Value {
            key,
            value: text.to_owned(),
            wanted: "a share from 0 to 1",
        })
}

/// True for `0000:03:00.0` and `03:00.0`.
fn is_pci_address(text: &str) -> bool {
    let hex =
        |s: &str, digits: usize| s.len() == digits && s.bytes().all(|b| b.is_ascii_hexdigit());
    let Some((slot, function)) = text.rsplit_once('.') else {
        return false;
    };
    let mut parts = slot.rsplit(':');
    let device = parts.next().is_some_and(|p| hex(p, 2));
    let bus = parts.next().is_some_and(|p| hex(p, 2));
    let domain = parts.next().is_none_or(|p| hex(p, 4));
    matches!(function.as_bytes(), [b'0'..=b'7'])
        && device
        && bus
        && domain
        && parts.next().is_none()
}

impl fmt::Display for DeviceArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "emu:{}", self.model.name())?;
        let Impairments {
            loss,
            duplicate,
            reorder,
            seed,
        } = self.impairments;
        for (key, share) in [("loss", loss), ("dup", duplicate), ("reorder", reorder)] {
            if share > 0.0 {
                write!(f, ",{key}={share}")?;
            }
        }
        if seed != 0 {
            write!(f, ",seed={seed}")?;
        }
        if self.stepped {
            f.write_str(",step")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<DeviceArg, DeviceArgError> {
        text.parse()
    }

    #[test]
    fn models_and_their_options() {
        assert_eq!(parse("emu:82599"), Ok(DeviceArg::default()));
        let full = parse("emu:x550,reorder=1,dup=0.5,loss=1e-3,seed=18446744073709551615,step");
        let full = full.unwrap();
        assert_eq!((full.model, full.stepped), (Model::X550, true));
        let faults = full.impairments;
        assert_eq!(
            (faults.loss, faults.duplicate, faults.reorder, faults.seed),
            (0.001, 0.5, 1.0, u64::MAX)
        );
        assert_eq!(parse(&full.to_string()), Ok(full));
    }

    #[test]
    fn other_kinds_of_device_are_known_and_refused() {
        for text in ["0000:03:00.0", "03:00.0", "ffff:ff:1f.7"] {
            assert_eq!(parse(text), Err(DeviceArgError::Pci(text.to_owned())));
        }
        for text in ["vfio-user:/run/nic.sock", "vfio-user:"] {
            assert_eq!(parse(text), Err(DeviceArgError::VfioUser(text.to_owned())));
        }
        for text in [
            "",
            "eth0",
            "3:00.0",
            "0000:03:00.8",
            "000:03:00.0",
            "0:0000:03:00.0",
            "EMU:82599",
        ] {
            assert_eq!(parse(text), Err(DeviceArgError::Unknown(text.to_owned())));
        }
    }

    #[test]
    fn wrong_options_are_named() {
        for model in ["", "x710", "82599 "] {
            let text = format!("emu:{model}");
            assert_eq!(parse(&text), Err(DeviceArgError::Model(model.to_owned())));
        }
        for part in ["", "lose=1", "loss", "step=1", "seed"] {
            let text = format!("emu:82599,{part}");
            assert_eq!(parse(&text), Err(DeviceArgError::Option(part.to_owned())));
        }
        for part in ["loss=1.1", "dup=-0.1", "reorder=NaN", "loss=", "seed=-1"] {
            let error = parse(&format!("emu:82599,{part}"));
            assert!(
                matches!(error, Err(DeviceArgError::Value { .. })),
                "{part}: {error:?}"
            );
        }
        assert_eq!(
            parse("emu:82599,loss=0.1,loss=0.1"),
            Err(DeviceArgError::Twice { key: "loss" })
        );
    }
}
