//! Adds ralph to the bytes of a settings file, and removes it again.
//!
//! [`add_ralph`] returns an [`EditTrace`], with which [`remove_ralph`] restores every byte, whatever else was edited
//! since.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::jsonc::SettingsTextError;
use super::registration::BlockCapSetting;
use super::settings_document::{InsertLayout, SettingsDocument, SettingsPathStep};
use super::{native_judge, program_path};
use ralph_host::HostProfile;
use ralph_host::client_settings::{
    HookEntry, HookMode, HookOccurrence, NativeJudgeEntry, SettingsSchema,
};

/// The entries that a settings file should have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedSettings {
    pub entries: Vec<HookEntry>,
    /// The client's own stop hook that asks a model.
    pub judge: Option<NativeJudgeEntry>,
    pub cap: BlockCapSetting,
    /// The command of the status line, set only if the file has none.
    pub status_line: Option<String>,
    /// Plugins to disable.
    pub disable: Vec<String>,
    /// Hooks of other tools to remove: the event, and the index in its list.
    pub cut: Vec<(String, usize)>,
}

/// The original content, as far as removing ralph's entries alone would not restore it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EditTrace {
    /// The whole text, if it had no value.
    blank: Option<String>,
    containers: Vec<TracedContainer>,
    values: Vec<TracedValue>,
    cut: Vec<TracedCut>,
}

impl EditTrace {
    /// The plugins that were disabled.
    pub fn disabled_plugins(&self, host: &HostProfile) -> Vec<String> {
        let names = self.values.iter().filter_map(|changed| match changed.path.as_slice() {
            [parent, name] if parent == host.settings.plugins => Some(name.clone()),
            _ => None,
        });
        names.collect()
    }

    /// The command of the status line that was set.
    pub fn status_line_command(&self, host: &HostProfile) -> Option<String> {
        let SettingsSchema { status_line, status_line_command, .. } = &host.settings;
        let changed = self.values.iter().find(|changed| changed.path == [*status_line])?;
        status_line_command(&serde_json::from_str(&changed.after).ok()?)
    }

    /// Whether this hook of another tool was removed.
    pub fn has_cut(&self, event: &str, text: &str) -> bool {
        self.cut.iter().any(|cut| cut.event == event && cut.hooks.iter().any(|hook| hook == text))
    }
}

/// An object or a list that was empty or missing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct TracedContainer {
    path: Vec<String>,
    /// The text between its brackets; `None` if it was missing.
    inside: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct TracedValue {
    path: Vec<String>,
    before: Option<String>,
    after: String,
}

/// A list that hooks of other tools were removed from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct TracedCut {
    event: String,
    /// The text between the brackets of the list, before and after.
    before: String,
    after: String,
    hooks: Vec<String>,
}

/// Adds ralph to settings without it.
pub fn add_ralph(
    host: &HostProfile,
    bytes: &[u8],
    wanted: &WantedSettings,
) -> Result<(Vec<u8>, EditTrace), SettingsTextError> {
    let schema = &host.settings;
    let mut document = SettingsDocument::read(bytes)?;
    let mut trace = EditTrace::default();
    if document.is_blank() {
        let text = document.text().to_string();
        let newline = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
        document.set_text(format!("{text}{newline}{{}}\n"))?;
        trace.blank = Some(text);
    }
    check_types(host, &document, wanted)?;
    cut_foreign_hooks(host, &mut document, wanted, &mut trace)?;
    for entry in &wanted.entries {
        let group = (schema.render_hook)(entry);
        insert_hook_group(host, &mut document, (entry.event, &group), &mut trace)?;
    }
    if let Some(judge) = &wanted.judge {
        let group = (schema.render_native_judge)(judge);
        insert_hook_group(host, &mut document, (judge.event, &group), &mut trace)?;
    }
    add_block_cap(host, &mut document, wanted.cap, &mut trace)?;
    if let Some(command) = &wanted.status_line
        && document.get(&[SettingsPathStep::Key(schema.status_line)]).is_none()
    {
        let value = (schema.render_status_line)(command);
        set_value(&mut document, &[schema.status_line], &value, &mut trace)?;
    }
    for plugin in &wanted.disable {
        set_value(&mut document, &[schema.plugins, plugin], "false", &mut trace)?;
    }
    Ok((document.into_bytes(), trace))
}

/// Removes ralph. Without a trace, containers that become empty are removed too.
pub fn remove_ralph(
    host: &HostProfile,
    bytes: &[u8],
    trace: Option<&EditTrace>,
) -> Result<Vec<u8>, SettingsTextError> {
    let mut document = SettingsDocument::read(bytes)?;
    if document.is_blank() {
        return Ok(bytes.to_vec());
    }
    remove_ralph_hooks(host, &mut document, trace)?;
    if let Some(trace) = trace {
        restore_values(host, &mut document, trace)?;
    } else {
        let SettingsSchema { status_line, status_line_command, .. } = host.settings;
        let line = document.get(&[SettingsPathStep::Key(status_line)]);
        let command = line.as_ref().and_then(status_line_command);
        if command.is_some_and(|command| program_path::is_ralph_status_line(&command)) {
            document.remove_key(&[], status_line)?;
        }
    }
    Ok(document.into_bytes())
}

/// Whether the settings have no entries and no comments.
pub fn is_empty_settings(bytes: &[u8]) -> bool {
    let document = SettingsDocument::read(bytes);
    document.is_ok_and(|document| {
        let inside = document.inside(&[]).unwrap_or_default();
        inside.trim().is_empty() && document.text().trim().len() <= inside.len() + 2
    })
}

/// Whether the block cap is set.
pub fn has_block_cap(host: &HostProfile, bytes: &[u8]) -> bool {
    let path = block_cap_path(host).map(SettingsPathStep::Key);
    SettingsDocument::read(bytes).is_ok_and(|document| document.get(&path).is_some())
}

fn block_cap_path(host: &HostProfile) -> [&'static str; 2] {
    [host.settings.variables, host.variables.block_cap]
}

/// Whether the settings already contain everything wanted, in any formatting.
pub fn is_installed(host: &HostProfile, bytes: &[u8], wanted: &WantedSettings) -> bool {
    let Ok(document) = SettingsDocument::read(bytes) else { return false };
    let value = document.value();
    let schema = &host.settings;
    let mut expected: Vec<_> = wanted.entries.iter().map(describe_entry).collect();
    expected.extend(wanted.judge.iter().map(describe_judge));
    let mut found: Vec<_> =
        find_ralph_hooks(host, &value).into_iter().map(describe_occurrence).collect();
    expected.sort();
    found.sort();
    let cap = document.get(&block_cap_path(host).map(SettingsPathStep::Key));
    let cap = cap.as_ref().map(value_as_text);
    let plugin = |name: &String| value.get(schema.plugins)?.get(name)?.as_bool();
    expected == found
        && cap.is_some_and(|cap| wanted.cap.is_met_by(&cap))
        && (wanted.status_line.is_none() || value.get(schema.status_line).is_some())
        && wanted.disable.iter().all(|name| plugin(name) == Some(false))
        && wanted.cut.is_empty()
}

/// Refuses to edit a file in which a relevant setting has the wrong type.
fn check_types(
    host: &HostProfile,
    document: &SettingsDocument,
    wanted: &WantedSettings,
) -> Result<(), SettingsTextError> {
    let wrong = |path: &[SettingsPathStep<'_>], is_right: fn(&Value) -> bool, why: &str| {
        let is_wrong = document.get(path).is_some_and(|value| !is_right(&value));
        if is_wrong { Err(document.error_at(path, why)) } else { Ok(()) }
    };
    let SettingsSchema { hooks, variables, plugins, .. } = host.settings;
    for key in [hooks, variables, plugins] {
        let why = format!("`{key}` must be an object");
        wrong(&[SettingsPathStep::Key(key)], Value::is_object, &why)?;
    }
    for entry in &wanted.entries {
        let why = format!("`{hooks}.{}` must be a list", entry.event);
        wrong(
            &[SettingsPathStep::Key(hooks), SettingsPathStep::Key(entry.event)],
            Value::is_array,
            &why,
        )?;
    }
    native_judge::check_judge_list(host, document, wanted.judge.as_ref())
}

fn cut_foreign_hooks(
    host: &HostProfile,
    document: &mut SettingsDocument,
    wanted: &WantedSettings,
    trace: &mut EditTrace,
) -> Result<(), SettingsTextError> {
    let mut events: Vec<_> = wanted.cut.iter().map(|(event, _)| event).collect();
    events.dedup();
    for event in events {
        let path = [SettingsPathStep::Key(host.settings.hooks), SettingsPathStep::Key(event)];
        let of_event = wanted.cut.iter().filter(|(other, _)| other == event);
        let mut indices: Vec<_> = of_event.map(|(_, index)| *index).collect();
        indices.sort_unstable_by(|one, other| other.cmp(one));
        let before = document.inside(&path).unwrap_or_default().to_string();
        let mut hooks = Vec::new();
        for index in indices {
            let place = [path[0], path[1], SettingsPathStep::Index(index)];
            hooks.extend(document.raw(&place).map(str::to_string));
            document.remove(&path, index)?;
        }
        hooks.reverse();
        let after = document.inside(&path).unwrap_or_default().to_string();
        trace.cut.push(TracedCut { event: event.clone(), before, after, hooks });
    }
    Ok(())
}

fn insert_hook_group(
    host: &HostProfile,
    document: &mut SettingsDocument,
    (event, group): (&str, &str),
    trace: &mut EditTrace,
) -> Result<(), SettingsTextError> {
    let hooks = host.settings.hooks;
    if document.get(&[SettingsPathStep::Key(hooks)]).is_none() {
        put_item(document, &[], &format!("{}: {{}}", json_quote(hooks)), trace)?;
        trace.containers.push(TracedContainer { path: vec![hooks.to_string()], inside: None });
    }
    if document.get(&[hooks, event].map(SettingsPathStep::Key)).is_some() {
        return put_item(document, &[hooks, event], group, trace);
    }
    put_item(document, &[hooks], &format!("{}: [{group}]", json_quote(event)), trace)?;
    let path = vec![hooks.to_string(), event.to_string()];
    trace.containers.push(TracedContainer { path, inside: None });
    Ok(())
}

fn add_block_cap(
    host: &HostProfile,
    document: &mut SettingsDocument,
    cap: BlockCapSetting,
    trace: &mut EditTrace,
) -> Result<(), SettingsTextError> {
    let path = block_cap_path(host);
    let there = document.get(&path.map(SettingsPathStep::Key));
    if there.is_some_and(|value| cap.is_met_by(&value_as_text(&value))) {
        return Ok(());
    }
    set_value(document, &path, &json_quote(&cap.value()), trace)
}

/// Sets a key of the settings, or of an object in them, which is created if it is missing.
fn set_value(
    document: &mut SettingsDocument,
    path: &[&str],
    value: &str,
    trace: &mut EditTrace,
) -> Result<(), SettingsTextError> {
    let steps: Vec<_> = path.iter().map(|name| SettingsPathStep::Key(name)).collect();
    let Some((name, above)) = path.split_last() else { return Ok(()) };
    let before = document.raw(&steps).map(str::to_string);
    if before.is_some() {
        document.set(&steps, value)?;
    } else {
        if let [parent] = above
            && document.get(&[SettingsPathStep::Key(parent)]).is_none()
        {
            put_item(document, &[], &format!("{}: {{}}", json_quote(parent)), trace)?;
            trace
                .containers
                .push(TracedContainer { path: vec![(*parent).to_string()], inside: None });
        }
        put_item(document, above, &format!("{}: {value}", json_quote(name)), trace)?;
    }
    let path = path.iter().map(ToString::to_string).collect();
    trace.values.push(TracedValue { path, before, after: value.to_string() });
    Ok(())
}

/// Inserts an item into a container, and records the text of one that was empty.
fn put_item(
    document: &mut SettingsDocument,
    path: &[&str],
    item: &str,
    trace: &mut EditTrace,
) -> Result<(), SettingsTextError> {
    let steps: Vec<_> = path.iter().map(|name| SettingsPathStep::Key(name)).collect();
    if document.len(&steps) == Some(0) {
        let path: Vec<_> = path.iter().map(ToString::to_string).collect();
        let is_known = trace.containers.iter().any(|container| container.path == path);
        let inside = document.inside(&steps).map(str::to_string);
        if !is_known {
            trace.containers.push(TracedContainer { path, inside });
        }
    }
    let is_list = document.get(&steps).is_some_and(|value| value.is_array());
    let is_one_line = !document.text().trim().contains('\n') && document.len(&[]) > Some(0);
    let is_root = path.is_empty();
    let layout = if is_list || (is_one_line && !is_root) {
        InsertLayout::Inline
    } else {
        InsertLayout::Lines
    };
    document.insert(&steps, item, layout)
}

fn remove_ralph_hooks(
    host: &HostProfile,
    document: &mut SettingsDocument,
    trace: Option<&EditTrace>,
) -> Result<(), SettingsTextError> {
    // From last to first, so that the remaining indices stay valid.
    for found in find_ralph_hooks(host, &document.value()).into_iter().rev() {
        let SettingsSchema { hooks, group_hooks, .. } = host.settings;
        let list = [SettingsPathStep::Key(hooks), SettingsPathStep::Key(&found.event)];
        let group = SettingsPathStep::Index(found.group);
        let within = [list[0], list[1], group, SettingsPathStep::Key(group_hooks)];
        if document.len(&within) == Some(1) {
            document.remove(&list, found.group)?;
            restore_container(document, &[hooks, &found.event], trace)?;
        } else {
            document.remove(&within, found.index)?;
        }
    }
    Ok(())
}

/// Restores or removes a container that may have lost its last entry.
fn restore_container(
    document: &mut SettingsDocument,
    path: &[&str],
    trace: Option<&EditTrace>,
) -> Result<(), SettingsTextError> {
    let steps: Vec<_> = path.iter().map(|name| SettingsPathStep::Key(name)).collect();
    if document.len(&steps) != Some(0) {
        return Ok(());
    }
    let left = document.inside(&steps).unwrap_or_default().trim().to_string();
    let known = trace.map(|trace| trace.containers.iter().find(|known| known.path == path));
    match (known, path.split_last()) {
        (Some(Some(TracedContainer { inside: Some(inside), .. })), _) if inside.trim() == left => {
            document.set_inside(&steps, inside)
        }
        (None | Some(Some(TracedContainer { inside: None, .. })), Some((name, above)))
            if left.is_empty() =>
        {
            let steps: Vec<_> = above.iter().map(|name| SettingsPathStep::Key(name)).collect();
            document.remove_key(&steps, name)?;
            restore_container(document, above, trace)
        }
        (None | Some(_), _) => Ok(()),
    }
}

fn restore_values(
    host: &HostProfile,
    document: &mut SettingsDocument,
    trace: &EditTrace,
) -> Result<(), SettingsTextError> {
    for cut in &trace.cut {
        let path = [SettingsPathStep::Key(host.settings.hooks), SettingsPathStep::Key(&cut.event)];
        if document.inside(&path) == Some(&cut.after) {
            document.set_inside(&path, &cut.before)?;
        } else {
            for hook in &cut.hooks {
                insert_hook_group(host, document, (&cut.event, hook), &mut EditTrace::default())?;
            }
        }
    }
    for changed in trace.values.iter().rev() {
        let path: Vec<_> = changed.path.iter().map(String::as_str).collect();
        let steps: Vec<_> = path.iter().map(|name| SettingsPathStep::Key(name)).collect();
        let after: Option<Value> = serde_json::from_str(&changed.after).ok();
        // A value that was edited since stays.
        if document.get(&steps) != after {
            continue;
        }
        let Some((name, above)) = path.split_last() else { continue };
        if let Some(before) = &changed.before {
            document.set(&steps, before)?;
        } else {
            let above_steps: Vec<_> =
                above.iter().map(|name| SettingsPathStep::Key(name)).collect();
            document.remove_key(&above_steps, name)?;
            restore_container(document, above, Some(trace))?;
        }
    }
    restore_container(document, &[], Some(trace))?;
    if let Some(blank) = &trace.blank
        && document.len(&[]) == Some(0)
        && let Some(rest) = document.text().strip_prefix(blank.as_str())
        && rest.chars().all(|char| char.is_whitespace() || "{}".contains(char))
    {
        document.set_text(blank.clone())?;
    }
    Ok(())
}

/// Ralph's hooks, in the order of the file.
fn find_ralph_hooks(host: &HostProfile, settings: &Value) -> Vec<HookOccurrence> {
    let mut found = (host.settings.find_hooks)(settings);
    found.retain(|hook| {
        let command = hook.command.as_deref().unwrap_or_default();
        program_path::is_ralph_hook(command, hook.args.as_deref())
            || native_judge::is_native_judge_hook(hook)
    });
    found
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct HookDescription {
    event: String,
    matcher: Option<String>,
    kind: String,
    /// The command or the prompt.
    command: String,
    args: Option<Vec<String>>,
    timeout: Option<String>,
    is_async: bool,
    status_message: Option<String>,
}

fn describe_occurrence(found: HookOccurrence) -> HookDescription {
    HookDescription {
        event: found.event,
        matcher: found.matcher,
        kind: found.kind.unwrap_or_default(),
        command: found.command.or(found.prompt).unwrap_or_default(),
        args: found.args,
        timeout: found.timeout,
        is_async: found.mode == HookMode::Async,
        status_message: found.status_message,
    }
}

fn describe_entry(entry: &HookEntry) -> HookDescription {
    HookDescription {
        event: entry.event.to_string(),
        matcher: entry.matcher.map(str::to_string),
        kind: "command".to_string(),
        command: entry.command.clone(),
        args: None,
        timeout: Some(entry.timeout.to_string()),
        is_async: entry.mode == HookMode::Async,
        status_message: entry.status_message.map(str::to_string),
    }
}

fn describe_judge(judge: &NativeJudgeEntry) -> HookDescription {
    HookDescription {
        event: judge.event.to_string(),
        matcher: None,
        kind: judge.kind.name().to_string(),
        command: judge.prompt.clone(),
        args: None,
        timeout: Some(judge.timeout.to_string()),
        is_async: false,
        status_message: Some(judge.status_message.to_string()),
    }
}

fn json_quote(text: &str) -> String {
    Value::from(text).to_string()
}

fn value_as_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_string)
}

#[cfg(test)]
mod tests;
