//! The client's own task list on disk: one file per task, in its configuration directory.

use ralph_core::id::SessionId;
use ralph_core::requirement::Requirement;
use ralph_core::source::client_tasks;
use ralph_home::faults::{self, Fault, FaultKind};
use ralph_home::host_env;
use ralph_home::world::World;
use ralph_sys::fs;
use std::ffi::OsString;
use std::path::PathBuf;

const MAX_TASK_BYTES: usize = 4 * 1024 * 1024;
const MAX_TASKS: usize = 5_000;
const MAX_TOTAL_BYTES: u64 = 16 * 1024 * 1024;

/// The requirement that every task of a session's list is completed; `None` if there is no list. An unreadable file is
/// recorded as a fault but never holds the agent, because the client may be writing it.
pub fn client_task_requirement(world: &World, session: &SessionId) -> Option<Requirement> {
    let directory = task_directory(world, session)?;
    if !fs::exists(&directory) {
        return None;
    }
    let tell = |what: &str| {
        faults::record_fault(&world.home, &Fault::new(FaultKind::File, what).with_session(session));
    };
    let names = match fs::list(&directory, MAX_TASKS) {
        Ok(names) => names,
        Err(error) => {
            tell(&faults::describe_error(&error));
            return None;
        }
    };
    let mut tasks = Vec::new();
    let mut room = MAX_TOTAL_BYTES;
    let is_task_file = |name: &&OsString| (world.host.tasks.is_task_file)(name.as_encoded_bytes());
    for path in names.iter().filter(is_task_file).map(|name| directory.join(name)) {
        let length = fs::stat(&path).map_or(0, |stat| stat.len);
        if length > room || world.answer_deadline.has_passed() {
            tell(&format!("`{}` has more tasks than can be read in time", directory.display()));
            break;
        }
        room -= length;
        match fs::read_if_exists(&path, MAX_TASK_BYTES) {
            Ok(None) => {}
            Ok(Some(bytes)) => match (world.host.tasks.read_task)(&bytes) {
                Ok(task) => tasks.extend(task),
                Err(garbled) => {
                    tell(&format!("cannot read `{}`: {}", path.display(), garbled.why));
                }
            },
            Err(error) => tell(&faults::describe_error(&error)),
        }
    }
    client_tasks::client_tasks_requirement(tasks)
}

/// The directory of a session's list. Sessions can share a list, which then has its own name.
fn task_directory(world: &World, session: &SessionId) -> Option<PathBuf> {
    let shared = host_env::host_task_list(&world.env, world.host);
    let list = shared.as_deref().unwrap_or(session.as_str());
    let config = host_env::host_config_dir(&world.env, world.host)?;
    Some(config.join((world.host.tasks.list_directory)(list)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ralph_core::requirement::RequirementStatus;
    use ralph_sys::clock::Deadline;
    use ralph_sys::env::Env;
    use ralph_sys::fs::Durability;
    use std::os::unix::fs::symlink;
    use std::path::Path;
    use std::time::Duration;

    fn write_file(directory: &Path, name: &str, bytes: &[u8]) {
        fs::create_private_dir(directory).unwrap();
        fs::replace(&directory.join(name), bytes, Durability::Cached).unwrap();
    }

    fn world(home: &Path, more: &[(&str, &str)]) -> World {
        let home = home.to_str().unwrap();
        let variables = [("HOME", home)].into_iter().chain(more.iter().copied());
        let env = Env::from_pairs(variables, None, Vec::new());
        World::new(env, Deadline::after(Duration::from_secs(30))).unwrap()
    }

    /// The requirement, followed by the recorded faults.
    fn requirement_and_faults(world: &World, session: &str) -> String {
        let requirement = client_task_requirement(world, &SessionId::parse(session).unwrap());
        let mut lines = match requirement.map(|requirement| requirement.status) {
            None => vec!["nothing".to_string()],
            Some(RequirementStatus::Unmet(failure)) => {
                let messages = failure.findings.into_iter().map(|finding| finding.message);
                [failure.summary].into_iter().chain(messages).collect()
            }
            Some(other) => vec![format!("{other:?}")],
        };
        let mut faults: Vec<String> = faults::list_faults(&world.home)
            .into_iter()
            .map(|fault| format!("fault: {}", fault.what))
            .collect();
        faults.sort_unstable();
        lines.extend(faults);
        let home = world.env.home().unwrap().display().to_string();
        lines.join("\n").replace(&home, "~")
    }

    fn task_json(id: u32, status: &str) -> String {
        format!(
            r#"{{"id":"{id}","subject":"do {id}","status":"{status}","blocks":[],"blockedBy":[]}}"#
        )
    }

    #[test]
    #[expect(clippy::too_many_lines, reason = "a table and its results")]
    fn task_directories_of_every_kind_are_read() {
        let home = tempfile::tempdir().unwrap();
        let tasks = home.path().join(".claude/tasks");
        let session = |name: &str, files: &[(&str, &[u8])]| {
            for (file, bytes) in files {
                write_file(&tasks.join(name), file, bytes);
            }
        };
        let (pending, completed) = (task_json(1, "pending"), task_json(2, "completed"));
        let (pending, completed) = (pending.as_bytes(), completed.as_bytes());
        session("open", &[("1.json", pending), ("2.json", completed)]);
        session("done", &[("2.json", completed)]);
        session("deleted", &[("3.json", task_json(3, "deleted").as_bytes())]);
        session(
            "others",
            &[
                (".highwatermark", b"7"),
                (".lock", b""),
                (".x.json", b"{"),
                ("a.txt", b"{"),
                ("json", b"{"),
            ],
        );
        session("half", &[("1.json", pending), ("2.json", &completed[..20])]);
        session("empty-file", &[("1.json", b""), ("2.json", completed)]);
        session("crlf", &[("1.json", b"{\r\n  \"id\": \"1\",\r\n  \"subject\": \"a\",\r\n  \"status\": \"pending\"\r\n}\r\n")]);
        session("bom", &[("1.json", &[b"\xef\xbb\xbf", pending].concat())]);
        session(
            "latin1",
            &[("1.json", b"{\"id\":\"1\",\"subject\":\"Gr\xfc\xdfe\",\"status\":\"pending\"}")],
        );
        session("list", &[("1.json", b"[]")]);
        session("deep", &[("1.json", &b"[".repeat(100_000))]);
        session("twice", &[("1.json", pending), ("01.json", pending)]);
        session("new-word", &[("1.json", task_json(1, "blocked").as_bytes())]);
        session(
            "big",
            &[(
                "1.json",
                &[
                    b"{\"status\":\"pending\",\"id\":\"1\",\"description\":\"",
                    &b"x".repeat(MAX_TASK_BYTES)[..],
                    b"\"}",
                ]
                .concat(),
            )],
        );
        fs::create_private_dir(&tasks.join("directory/1.json")).unwrap();
        fs::create_private_dir(&tasks.join("empty")).unwrap();
        fs::create_private_dir(&tasks.join("circle")).unwrap();
        symlink("1.json", tasks.join("circle/1.json")).unwrap();
        fs::create_private_dir(&tasks.join("pipe")).unwrap();
        ralph_sys::proc::testing::run_successfully(&tasks.join("pipe"), &["mkfifo", "1.json"]);
        write_file(&tasks, "file", b"");
        let sessions = [
            "none",
            "open",
            "done",
            "deleted",
            "others",
            "half",
            "empty-file",
            "crlf",
            "bom",
            "latin1",
            "list",
            "deep",
            "twice",
            "new-word",
            "big",
            "directory",
            "empty",
            "circle",
            "pipe",
            "file",
        ];
        let all: Vec<String> = sessions
            .iter()
            .map(|session| {
                let world = world(home.path(), &[]);
                let result = requirement_and_faults(&world, session);
                faults::clear_faults(&world.home).unwrap();
                format!("== {session}\n{result}")
            })
            .collect();
        insta::assert_snapshot!(all.join("\n"), @r#"
        == none
        nothing
        == open
        1 of 2 tasks is open
        #1 do 1
        == done
        Met(Claimed)
        == deleted
        nothing
        == others
        nothing
        == half
        1 of 1 task is open
        #1 do 1
        fault: cannot read `~/.claude/tasks/half/2.json`: line 1, column 20: EOF while parsing a value
        == empty-file
        Met(Claimed)
        fault: cannot read `~/.claude/tasks/empty-file/1.json`: it is empty
        == crlf
        1 of 1 task is open
        #1 a
        == bom
        1 of 1 task is open
        #1 do 1
        == latin1
        nothing
        fault: cannot read `~/.claude/tasks/latin1/1.json`: line 1, column 24: invalid unicode code point
        == list
        nothing
        fault: cannot read `~/.claude/tasks/list/1.json`: the file is a list, not an object
        == deep
        nothing
        fault: cannot read `~/.claude/tasks/deep/1.json`: line 1, column 100000: EOF while parsing a list
        == twice
        2 of 2 tasks are open
        #1 do 1
        #1 do 1
        == new-word
        nothing
        fault: cannot read `~/.claude/tasks/new-word/1.json`: "status" is "blocked", which is not known
        == big
        nothing
        fault: cannot read `~/.claude/tasks/big/1.json`: it is larger than 4194304 bytes
        == directory
        nothing
        fault: cannot read `~/.claude/tasks/directory/1.json`: it is not a regular file
        == empty
        nothing
        == circle
        nothing
        fault: cannot read `~/.claude/tasks/circle/1.json`: Too many levels of symbolic links (os error 40)
        == pipe
        nothing
        fault: cannot read `~/.claude/tasks/pipe/1.json`: it is not a regular file
        == file
        nothing
        fault: cannot list `~/.claude/tasks/file`: Not a directory (os error 20)
        "#);
    }

    #[test]
    fn the_configuration_directory_and_the_list_can_be_elsewhere() {
        let home = tempfile::tempdir().unwrap();
        let config = home.path().join("config");
        write_file(&config.join("tasks/s1"), "1.json", task_json(1, "pending").as_bytes());
        write_file(&config.join("tasks/a-list-"), "1.json", task_json(2, "in_progress").as_bytes());
        write_file(&config.join("tasks/---"), "1.json", task_json(3, "pending").as_bytes());
        let config = config.to_str().unwrap();
        let shared = |list| {
            world(home.path(), &[("CLAUDE_CONFIG_DIR", config), ("CLAUDE_CODE_TASK_LIST_ID", list)])
        };
        assert_eq!(requirement_and_faults(&world(home.path(), &[]), "s1"), "nothing");
        assert_eq!(
            requirement_and_faults(&world(home.path(), &[("CLAUDE_CONFIG_DIR", config)]), "s1"),
            "1 of 1 task is open\n#1 do 1"
        );
        assert_eq!(
            requirement_and_faults(&shared("a list!"), "s1"),
            "1 of 1 task is open\n#2 do 2 (in progress)"
        );
        assert_eq!(requirement_and_faults(&shared("../"), "s1"), "1 of 1 task is open\n#3 do 3");
    }

    #[test]
    fn at_most_5000_tasks_are_read() {
        let home = tempfile::tempdir().unwrap();
        let directory = home.path().join(".claude/tasks/s1");
        fs::create_private_dir(&directory).unwrap();
        for id in 0..=5_000 {
            let path = directory.join(format!("{id}.json"));
            fs::create_new(&path, task_json(id, "pending").as_bytes()).unwrap();
        }
        let world = world(home.path(), &[]);
        let refused = requirement_and_faults(&world, "s1");
        assert_eq!(
            refused,
            "nothing\nfault: cannot list `~/.claude/tasks/s1`: it has more than 5000 entries"
        );
        fs::remove_file(&directory.join("0.json")).unwrap();
        let read = requirement_and_faults(&world, "s1");
        assert_eq!(read.lines().next(), Some("5000 of 5000 tasks are open"));
    }
}
