//! The pods that run a command together.

use std::rc::Rc;

use crate::judge::commands::{Launch, Launcher};
use crate::kinds::{PodCount, PodTemplate, Workload};
use crate::text::meter;
use crate::text::pointer::Pointer;
use crate::text::value::Value;

/// Maximum places with numbers that a finding names.
const MAX_PLACES: usize = 4;

/// Pods that run the same launcher.
#[derive(Clone, Debug)]
pub(crate) struct Gang {
    /// How many certainly run it together.
    pub(crate) least: i64,
    /// How many may run it together.
    pub(crate) most: i64,
    /// How many are of the same template.
    pub(crate) own: i64,
    /// Where the numbers are written.
    pub(crate) said_by: Vec<(Pointer, i64)>,
    /// The least and the most pods, where a policy lets their number change.
    pub(crate) elastic: Option<(i64, i64)>,
    /// Whether more pods follow when these have ended.
    pub(crate) in_waves: bool,
}

/// The pods of one template.
struct GangPods {
    count: i64,
    said_by: Option<Pointer>,
    elastic: Option<(i64, i64)>,
    in_waves: bool,
}

/// The number of sorts of launchers. Launchers of one sort run together.
const SORTS: usize = 4;

fn sort(launcher: Launcher) -> usize {
    match launcher {
        Launcher::Torchrun | Launcher::TorchLaunch => 0,
        Launcher::Accelerate => 1,
        Launcher::DeepSpeed => 2,
        Launcher::Mpi | Launcher::Ray => 3,
    }
}

/// The gangs of each template, by the sort of launcher.
pub(super) struct Gangs(Vec<[Option<Rc<Gang>>; SORTS]>);

impl Gangs {
    pub(super) fn new(workload: &Workload<'_>, launches: &[Vec<Vec<Launch<'_>>>]) -> Self {
        let pods: Vec<Option<GangPods>> =
            workload.pods.iter().map(|pod| GangPods::new(workload, pod)).collect();
        // For each template, the number of containers that certainly start each sort.
        let runs: Vec<[usize; SORTS]> = launches.iter().map(|containers| certain(containers)).collect();
        let mut gangs: Vec<[Option<Rc<Gang>>; SORTS]> =
            (0..pods.len()).map(|_| [const { None }; SORTS]).collect();
        for sort in 0..SORTS {
            let total = Total::new(&pods, &runs, sort);
            for (index, form) in workload.pods.iter().map(|pod| pod.form).enumerate() {
                meter::spend(1);
                if let (Some(total), Some(own), 1) = (&total, &pods[index], runs[index][sort]) {
                    // Roles belong to one run; templates in a list may belong to several.
                    let is_one = form.roles().is_some();
                    let said_by = if is_one {
                        total.said_by.clone()
                    } else {
                        own.said_by.clone().map(|place| (place, own.count)).into_iter().collect()
                    };
                    gangs[index][sort] = Some(Rc::new(Gang {
                        least: if is_one { total.least } else { own.count },
                        most: total.most,
                        own: own.count,
                        said_by,
                        elastic: if is_one { total.elastic } else { own.elastic },
                        in_waves: own.in_waves,
                    }));
                }
            }
        }
        Self(gangs)
    }

    pub(super) fn of_launch(&self, pod: usize, launcher: Launcher) -> Option<Rc<Gang>> {
        self.0[pod][sort(launcher)].clone().filter(|gang| gang.own > 0)
    }
}

/// Counts the containers that certainly start each sort of launcher, each of them once.
fn certain(containers: &[Vec<Launch<'_>>]) -> [usize; SORTS] {
    let mut found = [0; SORTS];
    for launches in containers {
        for (at, count) in found.iter_mut().enumerate() {
            *count +=
                usize::from(launches.iter().any(|launch| launch.is_certain() && sort(launch.launcher) == at));
        }
    }
    found
}

/// The sum over all templates.
struct Total {
    least: i64,
    most: i64,
    said_by: Vec<(Pointer, i64)>,
    elastic: Option<(i64, i64)>,
}

impl Total {
    /// Adds up the pods that run a sort of launcher, and those that may; nothing if a number is unknown.
    fn new(pods: &[Option<GangPods>], runs: &[[usize; SORTS]], sort: usize) -> Option<Self> {
        let mut total = Self { least: 0, most: 0, said_by: Vec::new(), elastic: None };
        for (pods, runs) in pods.iter().zip(runs) {
            meter::spend(1);
            let pods = pods.as_ref()?;
            // The commands of other templates may start the launcher, too.
            total.most = total.most.saturating_add(pods.count);
            if runs[sort] > 0 {
                total.least = total.least.saturating_add(pods.count);
                total.elastic = total.elastic.or(pods.elastic);
                let place = pods.said_by.clone().filter(|_| total.said_by.len() < MAX_PLACES);
                total.said_by.extend(place.map(|place| (place, pods.count)));
            }
        }
        Some(total)
    }
}

/// Returns how many pods a template has, if that is known.
pub(super) fn count(workload: &Workload<'_>, pod: &PodTemplate<'_>) -> Option<i64> {
    GangPods::new(workload, pod).map(|pods| pods.count)
}

impl GangPods {
    /// Returns the pods of a template, if their number is known.
    fn new(workload: &Workload<'_>, pod: &PodTemplate<'_>) -> Option<Self> {
        let fields = ["replicas", "parallelism", "completions"];
        let around = pod.entry.iter().map(|entry| &entry.part).chain([&pod.around]);
        // A template engine leaves `null` where it has no value.
        let is_null = |value: Option<&Value>| value.is_some_and(Value::is_null);
        if around.into_iter().any(|part| fields.iter().any(|field| is_null(part.get(field).value))) {
            return None;
        }
        let PodCount { most, said_by, .. } = pod.written()?;
        let count = most?;
        let elastic = pod.elastic().and_then(|policy| {
            let bound = |path| workload.object.at(path).int().set();
            bound(policy.least).zip(bound(policy.most))
        });
        let completions = pod.around.get("completions").int().set();
        let in_waves = pod.form.is_job()
            && pod.around.get("parallelism").int().or_default(1)? < completions.unwrap_or(i64::MIN);
        Some(Self { count: count.max(0), said_by, elastic, in_waves })
    }
}
