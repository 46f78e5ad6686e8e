//! The event loop: waits for keys, signals and changes, and carries out effects.

use crate::canvas::TerminalLook;
use crate::input_reader::InputReader;
use crate::key_event::PersonInput;
use crate::page_loader::{PageAnswer, PageLoader};
use crate::page_source::{self, WatchPages};
use crate::screen::{MouseUse, TerminalScreen, give_back};
use crate::watch_effect::{LoadRequest, WatchEffect, WatchEvent};
use crate::watch_state::{WatchStart, WatchState};
use ralph_core::id::RunId;
use ralph_deck::person_action::PersonAction;
use ralph_home::paths::RalphHome;
use ralph_sys::clock::{self, Deadline};
use ralph_sys::fs::{DirectoryWatch, WatchOutcome};
use ralph_sys::proc::cancel::CancelToken;
use ralph_sys::terminal::{self, TerminalSignal};
use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// At most ten frames a second.
const SHORTEST_FRAME: Duration = Duration::from_millis(100);
/// After a slow look at the journals, the next one waits this many times as long as it took.
const LOAD_REST_FACTOR: u32 = 4;
/// Where changes are not reported, the wait ends each second.
const NO_TICK: Duration = Duration::from_hours(1);

/// How the board is shown.
#[derive(Clone, Copy, Debug)]
pub struct WatchOptions {
    pub look: TerminalLook,
    pub mouse: MouseUse,
    pub has_bell: bool,
}

/// What the board can do to runs and at the terminal. Each action is the command of the same name.
pub trait WatchCommands {
    /// A sentence for the person. The error says what is wrong and what to do next.
    fn carry_out(&mut self, run: &RunId, action: &PersonAction) -> Result<String, String>;

    /// Lets the person edit a text in an editor of their own.
    fn edit(&mut self, text: &str) -> Result<String, String>;
}

/// Something that wakes the loop.
#[derive(Debug)]
pub(crate) enum LoopEvent {
    Input(PersonInput),
    Signal(TerminalSignal),
    Changed,
    Loaded(Box<PageAnswer>),
    /// The terminal is gone.
    InputEnded,
}

/// Whether the loop goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LoopOutcome {
    Continue,
    Quit,
}

struct WatchLoop<'a, C: WatchCommands> {
    options: WatchOptions,
    state: WatchState,
    loader: PageLoader,
    /// The run that the person wants to see, until its page is loaded.
    opening: Option<RunId>,
    home: RalphHome,
    commands: &'a mut C,
    screen: TerminalScreen,
    /// `None` while another program has the terminal.
    input: Option<InputReader>,
    sender: Sender<LoopEvent>,
    watch: Arc<DirectoryWatch>,
    watched: BTreeSet<PathBuf>,
    /// Something changed that was not loaded yet.
    is_stale: bool,
    /// When the journals may be read again, and when the next frame may be written.
    next_load: Deadline,
    next_frame: Deadline,
    is_drawn: bool,
}

/// Shows the board until the person quits. `opened` is the run to begin with.
pub fn run_watch<C: WatchCommands>(
    options: WatchOptions,
    mut pages: WatchPages,
    commands: &mut C,
    opened: Option<RunId>,
) -> io::Result<()> {
    let (sender, receiver) = channel();
    let signals = sender.clone();
    terminal::watch_signals(
        move |signal| drop(signals.send(LoopEvent::Signal(signal))),
        give_back,
    )?;
    let (columns, rows) = terminal::terminal_size().unwrap_or((80, 24));
    let watch = Arc::new(DirectoryWatch::new());
    let stop = Arc::new(CancelToken::new()?);
    let waiting = spawn_directory_thread(&watch, &stop, sender.clone())?;
    let start = WatchStart {
        columns,
        rows,
        now_ms: clock::now_ms(),
        time_text: crate::duration_text::local_minute,
        look: options.look,
        is_live: true,
    };
    let mut watch_loop = WatchLoop {
        options,
        state: WatchState::new(&start),
        home: pages.home().clone(),
        loader: PageLoader::start(move |request| pages.load(request), sender.clone())?,
        opening: None,
        commands,
        screen: TerminalScreen::enter(options.mouse)?,
        input: Some(InputReader::start(sender.clone())?),
        sender,
        watch,
        watched: BTreeSet::new(),
        is_stale: false,
        next_load: Deadline::after(Duration::ZERO),
        next_frame: Deadline::after(Duration::ZERO),
        is_drawn: false,
    };
    let done = watch_loop.run(&receiver, opened);
    drop(watch_loop);
    stop.cancel();
    drop(waiting.join());
    done
}

fn spawn_directory_thread(
    watch: &Arc<DirectoryWatch>,
    stop: &Arc<CancelToken>,
    sender: Sender<LoopEvent>,
) -> io::Result<std::thread::JoinHandle<()>> {
    let (watch, stop) = (Arc::clone(watch), Arc::clone(stop));
    std::thread::Builder::new().name("changes".to_string()).spawn(move || {
        while watch.wait(&stop) == WatchOutcome::Changed {
            if sender.send(LoopEvent::Changed).is_err() {
                return;
            }
        }
    })
}

impl<C: WatchCommands> WatchLoop<'_, C> {
    fn run(&mut self, events: &Receiver<LoopEvent>, opened: Option<RunId>) -> io::Result<()> {
        self.draw()?;
        let mut first = vec![WatchEffect::Load(LoadRequest::Board)];
        first.extend(opened.map(|run| WatchEffect::Load(LoadRequest::Run(run))));
        let mut outcome = self.carry_out(first)?;
        while outcome == LoopOutcome::Continue {
            if !self.is_drawn && self.next_frame.has_passed() {
                self.draw()?;
            }
            let event = match events.recv_timeout(self.wait()) {
                Ok(event) => Some(event),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            };
            outcome = self.take(event)?;
            // What is queued already is one frame.
            while let (LoopOutcome::Continue, Ok(event)) = (outcome, events.try_recv()) {
                outcome = self.take(Some(event))?;
            }
        }
        Ok(())
    }

    /// How long nothing has to be done.
    fn wait(&self) -> Duration {
        let mut wait = self.state.next_tick_ms().map_or(NO_TICK, Duration::from_millis);
        if self.is_stale && !self.is_loading_board() {
            wait = wait.min(self.next_load.remaining());
        }
        if !self.is_drawn {
            wait = wait.min(self.next_frame.remaining());
        }
        wait
    }

    fn take(&mut self, event: Option<LoopEvent>) -> io::Result<LoopOutcome> {
        let now = WatchEvent::Time(clock::now_ms());
        let mut effects = self.update(now);
        match event {
            None => {}
            Some(LoopEvent::Input(input)) => {
                effects.extend(self.update(WatchEvent::Input(input)));
                // What a person did is shown at once.
                self.next_frame = Deadline::after(Duration::ZERO);
            }
            Some(LoopEvent::Changed) => self.is_stale = true,
            Some(LoopEvent::Loaded(answer)) => effects.extend(self.take_answer(*answer)),
            Some(LoopEvent::InputEnded | LoopEvent::Signal(TerminalSignal::Stop)) => {
                return Ok(LoopOutcome::Quit);
            }
            Some(LoopEvent::Signal(TerminalSignal::Suspend)) => effects.push(WatchEffect::Suspend),
            Some(LoopEvent::Signal(TerminalSignal::Resized | TerminalSignal::Continued)) => {
                if let Some((columns, rows)) = terminal::terminal_size() {
                    effects.extend(self.update(WatchEvent::Resized { columns, rows }));
                }
            }
        }
        if self.is_stale && self.next_load.has_passed() && !self.is_loading_board() {
            effects.extend(self.update(WatchEvent::Changed));
        }
        self.carry_out(effects)
    }

    fn update(&mut self, event: WatchEvent) -> Vec<WatchEffect> {
        self.is_drawn = false;
        self.state.update(event)
    }

    fn draw(&mut self) -> io::Result<()> {
        self.is_drawn = true;
        self.next_frame = Deadline::after(SHORTEST_FRAME);
        self.screen.show(self.state.draw())
    }

    fn carry_out(&mut self, effects: Vec<WatchEffect>) -> io::Result<LoopOutcome> {
        let mut queue: std::collections::VecDeque<_> = effects.into();
        while let Some(effect) = queue.pop_front() {
            let more = match effect {
                WatchEffect::Quit => return Ok(LoopOutcome::Quit),
                WatchEffect::Suspend => {
                    self.suspend()?;
                    self.state.reload()
                }
                WatchEffect::ClearScreen => {
                    self.screen.forget();
                    Vec::new()
                }
                WatchEffect::Bell => {
                    if self.options.has_bell {
                        self.screen.ring()?;
                    }
                    Vec::new()
                }
                WatchEffect::Load(request) => {
                    self.request(&request);
                    Vec::new()
                }
                WatchEffect::Act { run, action, asks_at_terminal: false } => {
                    let done = self.commands.carry_out(&run, &action);
                    self.update(WatchEvent::Acted(done))
                }
                WatchEffect::Act { run, action, asks_at_terminal: true } => {
                    let done = self.outside(|commands| commands.carry_out(&run, &action))?;
                    self.update(WatchEvent::Acted(done))
                }
                WatchEffect::OpenEditor { text } => {
                    let edited = self.outside(|commands| commands.edit(&text))?;
                    self.update(WatchEvent::Edited(edited))
                }
            };
            queue.extend(more);
        }
        Ok(LoopOutcome::Continue)
    }

    fn is_loading_board(&self) -> bool {
        self.loader.is_pending(&LoadRequest::Board)
    }

    fn request(&mut self, request: &LoadRequest) {
        let is_new = self.loader.request(request);
        match request {
            // What changes while a page is loaded may be missing in it.
            LoadRequest::Board => self.is_stale = !is_new,
            LoadRequest::Run(run) => {
                self.is_stale |= !is_new;
                if self.state.opened_run().as_ref() != Some(run) {
                    self.opening = Some(run.clone());
                }
            }
            LoadRequest::Earlier { .. }
            | LoadRequest::Reason { .. }
            | LoadRequest::Files(_)
            | LoadRequest::Checkpoints(_)
            | LoadRequest::CheckpointFiles { .. }
            | LoadRequest::Comparison { .. } => {}
        }
    }

    fn take_answer(&mut self, answer: PageAnswer) -> Vec<WatchEffect> {
        self.loader.take_answer(&answer);
        match &answer.request {
            LoadRequest::Board => {
                let rest = answer.took.saturating_mul(LOAD_REST_FACTOR).max(SHORTEST_FRAME);
                self.next_load = Deadline::after(rest);
            }
            // A page that the person has left since must not be opened again.
            LoadRequest::Run(run) => {
                let is_opened = self.opening.take_if(|opening| opening == run).is_some();
                if !is_opened && self.state.opened_run().as_ref() != Some(run) {
                    return Vec::new();
                }
            }
            LoadRequest::Earlier { .. }
            | LoadRequest::Reason { .. }
            | LoadRequest::Files(_)
            | LoadRequest::Checkpoints(_)
            | LoadRequest::CheckpointFiles { .. }
            | LoadRequest::Comparison { .. } => {}
        }
        let effects = self.update(WatchEvent::Loaded(answer.page));
        self.watch_directories();
        effects
    }

    /// Watches the runs that are shown. What changed before a directory was watched is loaded again.
    fn watch_directories(&mut self) {
        let runs = self.state.watched_runs();
        let wanted = page_source::watched_directories(&self.home, runs.iter());
        if wanted != self.watched {
            self.watch.set_directories(&wanted);
            self.watched = wanted;
            self.is_stale = true;
        }
    }

    fn suspend(&mut self) -> io::Result<()> {
        self.input = None;
        give_back();
        terminal::suspend_this_process()?;
        self.return_to_screen()
    }

    /// Gives the terminal to something else for a while.
    fn outside<T>(&mut self, work: impl FnOnce(&mut C) -> T) -> io::Result<T> {
        self.input = None;
        give_back();
        let done = work(self.commands);
        self.return_to_screen()?;
        Ok(done)
    }

    fn return_to_screen(&mut self) -> io::Result<()> {
        self.screen.enter_again()?;
        self.input = Some(InputReader::start(self.sender.clone())?);
        if let Some((columns, rows)) = terminal::terminal_size() {
            // The effect would clear the screen, which is empty.
            drop(self.update(WatchEvent::Resized { columns, rows }));
        }
        Ok(())
    }
}
