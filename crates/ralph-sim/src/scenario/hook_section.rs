//! Reads the hooks and plugins of a scenario file.

use super::expectations::SIMULATED_EVENTS;
use super::scenario_parser::ScenarioReader;
use super::{ScenarioHook, ScenarioHookCommand, ScenarioPlugin, file_format};
use crate::hook_settings::EvaluatorKind;

impl ScenarioReader {
    pub(super) fn read_hook(&mut self, hook: file_format::ScenarioHookToml) -> ScenarioHook {
        self.require_one_of(&hook.event, &SIMULATED_EVENTS, "event");
        let run = self.read_hook_run(&hook);
        ScenarioHook {
            event: hook.event.into_inner(),
            matcher: hook.matcher,
            run,
            timeout: hook.timeout,
            is_async: hook.r#async,
            layer: hook.r#in,
        }
    }

    fn read_hook_run(&mut self, hook: &file_format::ScenarioHookToml) -> ScenarioHookCommand {
        let evaluator = |kind, prompt: &String| ScenarioHookCommand::Evaluator {
            kind,
            prompt: prompt.clone(),
            model: hook.model.clone(),
        };
        let is_asked = hook.prompt.is_some() || hook.agent.is_some();
        if hook.model.is_some() && !is_asked {
            let message = "`model` is only for `prompt` and `agent`".to_owned();
            self.add_problem(hook.event.span(), message, None);
        }
        match (&hook.command, &hook.script, &hook.prompt, &hook.agent, &hook.args) {
            (Some(command), None, None, None, None) => {
                ScenarioHookCommand::Command(command.clone())
            }
            (Some(command), None, None, None, Some(args)) => {
                ScenarioHookCommand::Program { command: command.clone(), args: args.clone() }
            }
            (None, Some(script), None, None, None) => ScenarioHookCommand::Script(script.clone()),
            (None, None, Some(prompt), None, None) => evaluator(EvaluatorKind::Prompt, prompt),
            (None, None, None, Some(prompt), None) => evaluator(EvaluatorKind::Agent, prompt),
            (command, script, prompt, agent, _) => {
                let given = [
                    ("command", command.is_some()),
                    ("script", script.is_some()),
                    ("prompt", prompt.is_some()),
                    ("agent", agent.is_some()),
                ];
                let mut given = given.into_iter().filter(|(_, is_given)| *is_given);
                let message = match (given.next(), given.next()) {
                    (None, _) => "this hook has no command".to_owned(),
                    (Some(_), None) => "`args` needs `command`".to_owned(),
                    (Some((one, _)), Some((other, _))) => {
                        format!("this hook has both `{one}` and `{other}`")
                    }
                };
                let hint =
                    "use `command`, with or without `args`, or `script`, `prompt` or `agent`";
                self.add_problem(hook.event.span(), message, Some(hint));
                ScenarioHookCommand::default()
            }
        }
    }

    pub(super) fn read_plugin(
        &mut self,
        plugin: file_format::ScenarioPluginToml,
    ) -> ScenarioPlugin {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        if plugin.name.as_ref().is_empty() || !plugin.name.as_ref().bytes().all(is_plain) {
            let hint = "use letters, digits and `-`";
            let message = "invalid plugin name".to_owned();
            self.add_problem(plugin.name.span(), message, Some(hint));
        }
        let copy = plugin.copy.and_then(|copy| {
            if !plugin.hook.is_empty() {
                let message = "this plugin has both `copy` and hooks".to_owned();
                self.add_problem(
                    copy.span(),
                    message,
                    Some("use either `copy` or `[[plugin.hook]]`"),
                );
            }
            self.resolve_copy(&copy)
        });
        let hooks = plugin.hook.into_iter().map(|hook| self.read_hook(hook)).collect();
        ScenarioPlugin { name: plugin.name.into_inner(), copy, hooks }
    }
}
