//! What the process itself uses: threads, a device and processor time.

use anyhow::{Context as _, Result};
use paint_tensor::Device;

use crate::Usage;

/// Threads that any machine takes.
const FEW_THREADS: usize = 64;

/// Sets the number of threads of all kernels, once; 0 takes every core.
pub(crate) fn set_threads(threads: usize) -> Result<()> {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    check_threads(threads, cores)?;
    rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .build_global()
        .context("cannot start threads")
}

/// Far more threads than cores wait for each other for minutes.
fn check_threads(threads: usize, cores: usize) -> Result<(), Usage> {
    let most = FEW_THREADS.max(4 * cores);
    if threads > most {
        return Err(Usage(format!(
            "--threads: expected at most {most} on this machine of {cores} cores, got {threads}"
        )));
    }
    Ok(())
}

/// The device of a row of `paint list devices`, computing in a precision.
pub(crate) fn device(name: &str, precision: &str) -> Result<Device> {
    let opened = precision.parse().and_then(|precision| Device::open(name, precision));
    Ok(opened.map_err(|error| Usage(error.to_string()))?)
}

/// The number of threads in use.
pub(crate) fn threads() -> usize {
    rayon::current_num_threads()
}

/// CPU time of all threads so far, in seconds; none where the system does not say.
pub(crate) fn cpu_seconds() -> Option<f64> {
    parse_cpu_seconds(&std::fs::read_to_string("/proc/self/stat").ok()?)
}

fn parse_cpu_seconds(stat: &str) -> Option<f64> {
    /// `USER_HZ`, the unit of `/proc`, is 100 on every Linux that Rust supports.
    const TICKS: f64 = 100.0;
    // The second field is the program's name in parentheses; user and system time are the 14th and 15th.
    let mut fields = stat.rsplit(')').next()?.split_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<f64>().ok();
    Some((ticks()? + ticks()?) / TICKS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_threads_than_a_machine_can_serve_are_refused_by_its_number() {
        assert!(check_threads(0, 2).is_ok() && check_threads(64, 2).is_ok());
        assert!(check_threads(768, 192).is_ok());
        let message = check_threads(769, 192).unwrap_err().to_string();
        assert!(message.contains("at most 768") && message.contains("192 cores"), "{message}");
        assert!(check_threads(3000, 2).is_err());
    }

    #[test]
    fn a_system_that_does_not_say_gives_no_cpu_time() {
        let stat = "7 (a ) b) S 1 2 3 4 5 6 7 8 9 10 250 50 0 0";
        assert_eq!(parse_cpu_seconds(stat), Some(3.0));
        for unsaid in ["", "7 (paint) S 1 2", "7 (paint) S 1 2 3 4 5 6 7 8 9 10 x 50"] {
            assert_eq!(parse_cpu_seconds(unsaid), None, "{unsaid}");
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn cpu_time_grows_with_work() {
        let before = cpu_seconds().unwrap();
        let block = vec![1_u8; 1 << 20];
        let mut sum = 0_u64;
        while sum == 0 || cpu_seconds().unwrap() < before + 0.03 {
            sum += block.iter().map(|&x| u64::from(x)).sum::<u64>();
        }
        assert!(cpu_seconds().unwrap() > before);
    }
}
