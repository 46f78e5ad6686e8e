//! `ralph watch` at a real terminal, in tmux: what it shows, what its keys do, and that the terminal is given back.

use crate::sandbox::{SESSION, Sandbox, eventually, is_tool_missing};
use std::path::{Path, PathBuf};
use std::process::Output;

const POLICY: &str = "[[gate]]\nname = \"tests\"\nrun = [\"test\", \"-e\", \"done\"]\n";

/// A shell in a tmux server of its own.
struct TmuxTerminal<'a> {
    sandbox: &'a Sandbox,
    socket: PathBuf,
}

impl<'a> TmuxTerminal<'a> {
    fn open(sandbox: &'a Sandbox, variables: &[(&str, &str)]) -> Self {
        let terminal = Self { sandbox, socket: sandbox.root().join("tmux") };
        let mut shell = String::from("exec env LC_ALL=C.UTF-8 TERM=screen-256color PS1='$ '");
        for (name, value) in variables {
            shell.push_str(&format!(" {name}={value}"));
        }
        shell.push_str(" sh -i");
        terminal.tmux(&["new-session", "-d", "-x", "80", "-y", "24", &shell]);
        terminal
    }

    fn tmux(&self, args: &[&str]) -> String {
        let mut command = self.sandbox.tool_command("tmux");
        command.arg("-S").arg(&self.socket).args(["-f", "/dev/null", "-u"]).args(args);
        let Output { status, stdout, stderr } = command.output().unwrap();
        assert!(status.success(), "{args:?}: {}", String::from_utf8_lossy(&stderr));
        String::from_utf8(stdout).unwrap()
    }

    fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }

    /// Waits until the screen has a text.
    fn wait_for(&self, text: &str) -> String {
        let seen = std::cell::RefCell::new(String::new());
        let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            eventually(|| {
                let screen = self.screen();
                seen.borrow_mut().clone_from(&screen);
                screen.contains(text).then_some(screen)
            })
        }));
        found.unwrap_or_else(|_| panic!("no `{text}` on the screen:\n{}", seen.borrow()))
    }

    /// Waits for the question before an action, and returns the word that confirms it. A question that was answered may
    /// still be on the screen.
    fn asked_word(&self, action: &str) -> String {
        let question = regex::Regex::new(&format!("type ([a-z]{{4}}) to {action}:\\s*$")).unwrap();
        // With lines joined that the terminal broke.
        let asked = || self.tmux(&["capture-pane", "-p", "-J"]);
        eventually(|| question.captures(&asked()).map(|found| found[1].to_string()))
    }

    fn keys(&self, keys: &[&str]) {
        let args: Vec<_> = ["send-keys"].iter().chain(keys).copied().collect();
        self.tmux(&args);
    }

    fn type_text(&self, text: &str) {
        self.tmux(&["send-keys", "-l", text]);
    }

    fn enter_line(&self, line: &str) {
        self.type_text(line);
        self.keys(&["Enter"]);
    }

    /// The modes that a full-screen program changes.
    fn modes(&self) -> String {
        let format = "alternate=#{alternate_on} cursor=#{cursor_flag} mouse=#{mouse_any_flag}";
        self.tmux(&["display-message", "-p", format]).trim().to_string()
    }
}

impl Drop for TmuxTerminal<'_> {
    fn drop(&mut self) {
        let mut command = self.sandbox.tool_command("tmux");
        drop(command.arg("-S").arg(&self.socket).arg("kill-server").output());
    }
}

fn ralph() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_ralph"))
}

/// A run that was held once and whose agent asks something.
fn asking_sandbox() -> (Sandbox, String) {
    let sandbox = Sandbox::new();
    sandbox.write("ralph.toml", POLICY);
    sandbox.approve_policy();
    let run = sandbox.start_run(["--goal-file", "-"]);
    assert!(sandbox.send_stop(SESSION, "").is_block());
    let asked = sandbox.ralph(["ask", "--run", &run, "Keep the old \u{1b}[31mroutes?"]);
    assert_eq!(asked.code, Some(0), "{asked}");
    (sandbox, run)
}

/// Opens a run, answers its question with keys, resizes, and quits.
#[test]
fn a_question_is_answered_with_keys_and_the_terminal_is_given_back() {
    if is_tool_missing("tmux") {
        return;
    }
    let (sandbox, run) = asking_sandbox();
    let terminal = TmuxTerminal::open(&sandbox, &[]);
    terminal.wait_for("$");
    let before = terminal.modes();
    terminal.enter_line(&format!("{} watch; echo \"code=$?\"", ralph().display()));
    let screen = terminal.wait_for("WAITING FOR YOU");
    assert!(screen.contains(&format!("▌? {run}  asks")), "{screen}");
    assert!(screen.contains("Keep the old routes?"), "{screen}");
    assert_eq!(terminal.modes(), "alternate=1 cursor=0 mouse=0");
    terminal.keys(&["Enter"]);
    terminal.wait_for("press a to answer");
    terminal.keys(&["a"]);
    terminal.wait_for("Your answer");
    terminal.type_text("keep them");
    terminal.keys(&["Enter"]);
    terminal.type_text("for a release");
    terminal.wait_for("for a release");
    terminal.keys(&["C-s"]);
    terminal.wait_for("sent; the agent gets it at its next stop");
    let journal = sandbox.ralph(["log", &run, "--json"]).stdout;
    let told = journal.lines().last().unwrap();
    let told: serde_json::Value = serde_json::from_str(told).unwrap();
    let expected = serde_json::json!({
        "answers": 2, "by": "a person", "text": "keep them\nfor a release",
    });
    assert_eq!(told["change"]["hint_given"], expected, "{told}");
    // What another program changes appears by itself.
    terminal.keys(&["Escape"]);
    terminal.wait_for("ralph  ");
    assert_eq!(sandbox.ralph(["pause", &run]).code, Some(0));
    terminal.wait_for("paused");
    terminal.tmux(&["resize-window", "-x", "120", "-y", "40"]);
    terminal.wait_for("e earlier");
    terminal.keys(&["p"]);
    terminal.wait_for("resumed; the agent is held at its next stop");
    terminal.keys(&["q"]);
    terminal.wait_for("code=0");
    assert_eq!(terminal.modes(), before);
    terminal.enter_line("clear; stty -a | tr ' ' '\\n' | grep -xE -e '-?(icanon|echo|isig);?'");
    let modes = terminal.wait_for("isig");
    assert!(!modes.contains("-icanon") && !modes.contains("-echo"), "{modes}");
}

/// Cancelling needs the id, a suspended board returns, and a signal gives the terminal back.
#[test]
fn the_terminal_is_given_back_by_suspend_and_by_signals() {
    if is_tool_missing("tmux") {
        return;
    }
    let (sandbox, run) = asking_sandbox();
    let terminal = TmuxTerminal::open(&sandbox, &[("NO_COLOR", "1")]);
    terminal.wait_for("$");
    let before = terminal.modes();
    let pid = sandbox.root().join("pid");
    terminal.enter_line(&format!(
        "sh -c 'echo $$ > {}; exec {} watch {run}'",
        pid.display(),
        ralph().display()
    ));
    terminal.wait_for("press a to answer");
    terminal.keys(&["C-z"]);
    eventually(|| (terminal.modes() == before).then_some(()));
    terminal.enter_line("clear; fg");
    terminal.wait_for("press a to answer");
    terminal.keys(&["x"]);
    terminal.wait_for("Cancel");
    terminal.type_text("zzzz");
    terminal.keys(&["Enter"]);
    terminal.wait_for("nothing was cancelled");
    terminal.keys(&["C-u"]);
    terminal.type_text(&run);
    terminal.keys(&["Enter"]);
    terminal.wait_for("cancelled; its session is free");
    let pid = std::fs::read_to_string(pid).unwrap();
    let killed = sandbox.tool_command("kill").args(["-TERM", pid.trim()]).status().unwrap();
    assert!(killed.success());
    eventually(|| (terminal.modes() == before).then_some(()));
    terminal.enter_line("echo \"code=$?\"");
    terminal.wait_for("code=0");
}

/// An ended run does not wait for an answer.
#[test]
fn a_run_that_ended_with_a_question_says_what_a_person_can_do() {
    let (sandbox, run) = asking_sandbox();
    let stopped = sandbox.send_stop(SESSION, "");
    assert!(!stopped.is_block(), "{stopped}");
    let watched = sandbox.ralph(["watch", "--once", &run]).stdout;
    assert!(!watched.contains("press a"), "{watched}");
    let lines = |text: &str| {
        let lines = text
            .lines()
            .map(str::trim)
            .filter(|line| line.contains("routes?") || line.contains("next:"));
        lines.take(2).collect::<Vec<_>>().join("\n")
    };
    let status = sandbox.ralph(["status", &run]).stdout;
    let shown = [lines(&watched), lines(&status)].join("\n--\n").replace(&run, "[run]");
    insta::assert_snapshot!(shown, @"
    Keep the old routes?
    next: answer in the session with `/ralph:goal` and what to do next, or close
    --
    asks: Keep the old routes?
    next: answer in the session with `/ralph:goal` and what to do next, or close the run with `ralph cancel [run]`
    ");
}

/// Without a terminal, one frame is printed as text. What an agent wrote controls nothing.
#[test]
fn without_a_terminal_one_frame_is_printed() {
    let (sandbox, run) = asking_sandbox();
    let printed = sandbox.ralph(["watch"]);
    assert_eq!((printed.code, printed.stderr.as_str()), (Some(0), ""));
    assert!(!printed.stdout.contains('\u{1b}'), "{printed}");
    let shown = printed.stdout.replace(&run, "k7f2");
    insta::with_settings!({filters => vec![(r"0 ended( since \d\d:\d\d)? +", "0 ended  "), (r"\d+:\d\d  ", "00:00  ")]}, {
        insta::assert_snapshot!(shown, @r"
         ralph  1 waits for you · 0 working · 0 ended  $0.00 today

         WAITING FOR YOU                                                iter.      cost
        ▌? k7f2  asks         make it work                 project       1/25
            Keep the old routes?
        ");
    });
    let opened = sandbox.command().args(["watch", "--once", &run]).env("LC_ALL", "C").output();
    let opened = opened.unwrap().stdout;
    assert!(opened.is_ascii(), "{}", String::from_utf8_lossy(&opened));
    insta::with_settings!({filters => vec![(r"\d\d:\d\d ", "00:00 "), (run.as_str(), "k7f2"), (r"\d+ m?s of 8 h", "1 s of 8 h"), (r"gates .*", "gates <1 s")]}, {
        insta::assert_snapshot!(String::from_utf8(opened).unwrap(), @"
         k7f2 asks  make it work                                                project
         3 of 5 met, 1 of 25, 1 s of 8 h

        >? The agent asks: Keep the old routes?
        >  press a to answer

         next: answer in the session

         look first: not met: a change: the work tree has not changed si...  and 1 more

         stop              1  now
         a change          X  not met
         tests             1  1 finding
         3 others, met at every stop

        >00:00 asks         Keep the old routes?
         00:00 held 1       a change, tests: 1 finding          gates <1 s
         00:00 started      make it work
        ");
    });
}

/// What asks for a word leaves the screen for it, and so does the editor; then the board returns.
#[test]
fn messages_limits_and_waivers_are_given_at_a_terminal() {
    if is_tool_missing("tmux") {
        return;
    }
    let (sandbox, run) = asking_sandbox();
    let editor = sandbox.root().join("editor");
    std::fs::write(&editor, "printf 'said the editor\n' >> \"$1\"\n").unwrap();
    let editor = format!("'sh {}'", editor.display());
    let terminal = TmuxTerminal::open(&sandbox, &[("EDITOR", &editor)]);
    let last_change = || {
        let journal = sandbox.ralph(["log", &run, "--json"]).stdout;
        let last: serde_json::Value =
            serde_json::from_str(journal.lines().last().unwrap()).unwrap();
        last["change"].clone()
    };
    terminal.wait_for("$");
    terminal.enter_line(&format!("{} watch; echo \"code=$?\"", ralph().display()));
    terminal.wait_for("WAITING FOR YOU");
    for (key, shown) in [
        ("s", "RUNS, NEWEST FIRST"),
        ("s", "RUNS BY COST"),
        ("s", "WAITING FOR YOU"),
        ("e", "ALL RUNS"),
        ("e", "WAITING FOR YOU"),
        ("Enter", "press a to answer"),
        ("Tab", "What the agent read at stop 1"),
        ("BTab", "press a to answer"),
        ("h", "WAITING FOR YOU"),
        ("y", "to see its command"),
        ("p", &format!("ralph pause {run}")),
        ("t", "Your answer"),
    ] {
        terminal.keys(&[key]);
        terminal.wait_for(shown);
    }
    terminal.type_text("keep them, ");
    terminal.keys(&["C-e"]);
    terminal.wait_for("keep them, said the editor");
    terminal.keys(&["C-s"]);
    terminal.wait_for("sent; the agent gets it at its next stop");
    assert_eq!(last_change()["hint_given"]["text"], "keep them, said the editor");
    terminal.keys(&["l"]);
    terminal.wait_for("Change the limits");
    terminal.type_text("40");
    terminal.keys(&["C-s"]);
    let word = terminal.asked_word("change the limits");
    assert_eq!(terminal.modes(), "alternate=0 cursor=1 mouse=0");
    terminal.enter_line(&word);
    terminal.wait_for(" limits  40 iterations");
    assert_eq!(terminal.modes(), "alternate=1 cursor=0 mouse=0");
    // No word has a vowel.
    for (typed, shown) in [(Some("aaaa"), "that was another word"), (None, "tests is waived")] {
        let before = last_change();
        terminal.keys(&["w"]);
        terminal.wait_for("Waive a requirement");
        for field in ["tests", "2h", "the service is down"] {
            terminal.enter_line(field);
        }
        let word = terminal.asked_word("waive it");
        terminal.enter_line(typed.unwrap_or(&word));
        terminal.wait_for(shown);
        assert_eq!(last_change() == before, typed.is_some());
    }
    assert_eq!(last_change()["waived"]["requirement"], "tests");
    terminal.keys(&["q"]);
    terminal.wait_for("code=0");
}

/// Everything that only looks: tabs, search, help, filter, and the mouse where it is asked for.
#[test]
fn tabs_search_help_filter_and_mouse_work_at_a_terminal() {
    if is_tool_missing("tmux") {
        return;
    }
    let sandbox = Sandbox::new();
    sandbox.write("ralph.toml", POLICY);
    sandbox.write("main.txt", "hello\n");
    sandbox.commit();
    sandbox.approve_policy();
    let run = sandbox.start_run(["--goal-file", "-"]);
    sandbox.write("main.txt", "goodbye\n");
    assert!(sandbox.send_stop(SESSION, "").is_block());
    assert_eq!(sandbox.ralph(["ask", "--run", &run, "Keep the old routes?"]).code, Some(0));
    let ended = sandbox.start_run_for("1b810b37-0c11-4c0e-9a51-2f6d2f6b8a01", ["--goal-file", "-"]);
    assert_eq!(sandbox.ralph(["cancel", &ended]).code, Some(0));
    let terminal = TmuxTerminal::open(&sandbox, &[]);
    terminal.wait_for("$");
    let before = terminal.modes();
    terminal.enter_line(&format!("{} watch --mouse; echo \"code=$?\"", ralph().display()));
    let screen = terminal.wait_for("WAITING FOR YOU");
    assert_eq!(terminal.modes(), "alternate=1 cursor=0 mouse=1");
    // The first click selects the other run, the wheel goes back, and clicks on what is selected open it.
    let line_of =
        |screen: &str, text: &str| screen.lines().position(|line| line.contains(text)).unwrap() + 1;
    let click =
        |line: usize| terminal.type_text(&format!("\u{1b}[<0;9;{line}M\u{1b}[<0;9;{line}m"));
    click(line_of(&screen, &ended));
    terminal.wait_for(&format!("▌- {ended}"));
    terminal.type_text("\u{1b}[<64;9;9M");
    terminal.wait_for(&format!("▌? {run}"));
    click(line_of(&screen, &run));
    terminal.wait_for("press a to answer");
    for (key, shown) in [
        ("2", "What the agent read at stop 1"),
        ("3", "GATE"),
        ("4", "M main.txt"),
        ("5", "enter compares with the one before"),
        ("6", "started"),
        ("1", "press a to answer"),
    ] {
        terminal.keys(&[key]);
        terminal.wait_for(shown);
    }
    terminal.keys(&["/"]);
    terminal.type_text("held");
    terminal.wait_for("search: held");
    terminal.keys(&["Enter"]);
    terminal.wait_for("▌");
    terminal.keys(&["?"]);
    terminal.wait_for("next, previous match");
    terminal.keys(&["Escape"]);
    terminal.wait_for("press a to answer");
    terminal.keys(&["Escape"]);
    terminal.wait_for("WAITING FOR YOU");
    terminal.keys(&["/"]);
    terminal.type_text("is:cancelled");
    terminal.keys(&["Enter"]);
    let found = terminal.wait_for("1 of 2 runs");
    assert!(found.contains(&ended) && !found.contains(&run), "{found}");
    terminal.keys(&["q"]);
    terminal.wait_for("code=0");
    assert_eq!(terminal.modes(), before);
}

/// Colours are the terminal's own, and `NO_COLOR` leaves none.
#[test]
fn a_terminal_shows_colors_unless_no_color_is_set() {
    if is_tool_missing("tmux") {
        return;
    }
    let colors = regex::Regex::new(r"\x1b\[[0-9;]*?(3[0-7]|4[0-7]|9[0-7])[;m]").unwrap();
    let shown = [&[][..], &[("NO_COLOR", "1")]].map(|variables| {
        let (sandbox, run) = asking_sandbox();
        let terminal = TmuxTerminal::open(&sandbox, variables);
        terminal.wait_for("$");
        terminal.enter_line(&format!("{} watch", ralph().display()));
        terminal.wait_for("WAITING FOR YOU");
        let screen = terminal.tmux(&["capture-pane", "-p", "-e"]);
        let line = screen.lines().find(|line| line.contains(&run)).unwrap();
        let found = colors.find_iter(line).map(|color| color.as_str()[1..].to_string());
        let found: Vec<_> = found.collect();
        let whole = colors.is_match(&screen);
        terminal.keys(&["q"]);
        format!("{whole} {}", found.join(" "))
    });
    insta::assert_snapshot!(shown.join("\n"), @r"
    true [35m [35m
    false
    ");
}

/// The small form of the board follows changes too, and leaves its last state behind.
#[test]
fn the_status_is_watched_at_a_terminal() {
    if is_tool_missing("tmux") {
        return;
    }
    let (sandbox, run) = asking_sandbox();
    let terminal = TmuxTerminal::open(&sandbox, &[]);
    terminal.wait_for("$");
    let before = terminal.modes();
    let cd = format!("cd {}; ", sandbox.project().display());
    terminal
        .enter_line(&format!("{cd}clear; {} status --watch; echo \"code=$?\"", ralph().display()));
    terminal.wait_for("Keep the old");
    assert_eq!(terminal.modes(), "alternate=1 cursor=1 mouse=0");
    assert_eq!(sandbox.ralph(["pause", &run]).code, Some(0));
    terminal.wait_for("paused");
    terminal.keys(&["C-c"]);
    let left = terminal.wait_for("code=");
    assert!(left.contains("paused"), "{left}");
    assert_eq!(terminal.modes(), before);
    let refused = sandbox.ralph(["status", "--watch"]);
    insta::assert_snapshot!(refused, @r"
    exit 1
    --- stderr
    error: `--watch` needs a terminal
      hint: `ralph status` shows the state once, `ralph log --follow` prints what happens
    ");
}

/// With nothing running, nothing happens between the last frame and the next key.
#[test]
fn an_idle_board_makes_no_system_calls() {
    if is_tool_missing("tmux") || is_tool_missing("strace") {
        return;
    }
    let sandbox = Sandbox::new();
    let run = sandbox.start_run(["--goal-file", "-"]);
    assert_eq!(sandbox.ralph(["cancel", &run]).code, Some(0));
    let terminal = TmuxTerminal::open(&sandbox, &[]);
    terminal.wait_for("$");
    let trace = sandbox.root().join("trace");
    terminal.enter_line(&format!(
        "strace -f -qq -s 16 -e signal=none -o {} {} watch; echo \"code=$?\"",
        trace.display(),
        ralph().display()
    ));
    let screen = terminal.wait_for("cancelled");
    if screen.contains("code=1") {
        println!("skipped: strace does not start");
        return;
    }
    // The board looks once more after it began to watch, how soon depends on the machine. Then it rests: a board that
    // wakes up by itself never lets ten commands pass without a system call.
    let read = || std::fs::read_to_string(&trace).unwrap_or_default();
    eventually(|| {
        let before = read();
        (0..10).for_each(|_| drop(sandbox.ralph(["why", &run])));
        (read() == before).then_some(())
    });
    terminal.keys(&["q"]);
    terminal.wait_for("code=0");
}
