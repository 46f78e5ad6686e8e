//! Runs the commands of the `Bash` tool in the scratch project.

use crate::client_rules::shell_tool::{self, ShellLaunch};
use crate::client_rules::tool_invocation::{ToolInvocation, ToolOutcome};
use crate::simulator::client_process::SimulatedClient;
use ralph_sys::clock::Deadline;
use ralph_sys::proc::job::JobEnd;
use std::time::Duration;

/// How long a command runs before the person interrupts it.
const INTERRUPT_DELAY: Duration = Duration::from_millis(300);

pub(super) fn run_command(host: &mut SimulatedClient<'_>, call: &ToolInvocation) -> ToolOutcome {
    let launch = shell_launch(host, call);
    let deadline = Deadline::after(shell_tool::command_timeout(call));
    let finished = shell_tool::supervise_command(&launch, deadline, &host.cancel);
    host.was_killed |= matches!(finished.end, JobEnd::Lost);
    let note = shell_tool::follow_cwd(&mut host.cwd, &host.stage.project, &launch.cwd_file);
    shell_tool::command_outcome(&finished, note, call)
}

/// Runs a command that the person interrupts.
pub(super) fn run_until_interrupted(host: &mut SimulatedClient<'_>, call: &ToolInvocation) {
    let launch = shell_launch(host, call);
    shell_tool::supervise_command(&launch, Deadline::after(INTERRUPT_DELAY), &host.cancel);
}

pub(in crate::simulator) fn shell_launch(
    host: &mut SimulatedClient<'_>,
    call: &ToolInvocation,
) -> ShellLaunch {
    let settings = host.load_settings();
    let cwd_file = host.stage.root.join("cwd");
    ShellLaunch {
        program: host.program.to_owned(),
        argv: shell_tool::command_argv(call, &cwd_file, &host.env_file()),
        env: host.environment(&settings),
        cwd: host.cwd.clone(),
        cwd_file,
    }
}
