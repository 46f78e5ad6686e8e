//! Sends a run that ended to the OpenTelemetry collector of the person's own `config.toml`, in the background.
//!
//! The worker is `ralph export otlp`: a hook must not contain what reads a whole journal and draws it.

use super::{describe_notify_error, start_worker};
use ralph_core::id::RunId;
use ralph_home::faults::{self, Fault, FaultKind};
use ralph_home::world::World;
use ralph_policy::config;
use ralph_sys::fs;

/// Starts the worker if a collector is configured. Errors become faults.
pub(super) fn export_after_end(world: &World, run: &RunId) {
    if world.env.is_rehearsal() || !fs::exists(&world.home.user_config()) {
        return;
    }
    // A file with errors is reported by the notification, which reads it next.
    let Ok(Some(_)) = config::load_otlp_endpoint(&world.home) else { return };
    let words = ["export", "otlp", run.as_str(), "--in-background"].map(ToString::to_string);
    if let Err(error) = start_worker(&words) {
        let what = format!("it was not exported {}", describe_notify_error(&error));
        let fault = Fault::new(FaultKind::Notification, &what).with_run(run);
        faults::record_fault(&world.home, &fault);
    }
}
