//! The options of launchers, as data.
//!
//! Sources: `torch/distributed/run.py`, `accelerate/commands/launch.py`, `deepspeed/launcher/runner.py` and
//! the manual page of Open MPI's `mpirun` (docs/internals/training.md#launcher-options).

use crate::judge::commands::launcher::Launcher;

/// The options of a launcher.
pub(super) struct OptionTable {
    pub(super) launchers: &'static [Launcher],
    options: &'static [LauncherOption],
    /// Whether an unambiguous prefix of a long name is enough (Python's argparse).
    abbreviates: bool,
    /// Whether `-x=1` contains a value.
    pub(super) inline: bool,
}

/// An option.
#[derive(Clone, Copy, Debug)]
pub(super) struct LauncherOption {
    /// Its name without dashes, with `_` for `-`.
    pub(super) name: &'static str,
    /// The number of words after it that are its values.
    pub(super) values: usize,
    /// Whether the launcher has it. People use some that do not exist.
    pub(super) exists: bool,
}

const fn one(name: &'static str) -> LauncherOption {
    LauncherOption { name, values: 1, exists: true }
}

const fn flag(name: &'static str) -> LauncherOption {
    LauncherOption { name, values: 0, exists: true }
}

const fn two(name: &'static str) -> LauncherOption {
    LauncherOption { name, values: 2, exists: true }
}

/// An option that people write and that does not exist.
const fn no_such(name: &'static str) -> LauncherOption {
    LauncherOption { name, values: 1, exists: false }
}

/// The tables.
pub(super) static TABLES: [OptionTable; 5] = [
    OptionTable {
        launchers: &[Launcher::Torchrun, Launcher::TorchLaunch],
        options: &[
            one("nnodes"),
            one("nproc_per_node"),
            one("rdzv_backend"),
            one("rdzv_endpoint"),
            one("rdzv_id"),
            one("rdzv_conf"),
            flag("standalone"),
            one("max_restarts"),
            one("monitor_interval"),
            one("start_method"),
            one("event_log_handler"),
            one("role"),
            flag("module"),
            flag("no_python"),
            flag("run_path"),
            one("log_dir"),
            one("redirects"),
            one("tee"),
            one("local_ranks_filter"),
            one("node_rank"),
            one("master_addr"),
            one("master_port"),
            one("local_addr"),
            one("logs_specs"),
            one("numa_binding"),
            one("signals_to_handle"),
            flag("virtual_local_rank"),
            flag("use_env"),
            one("duplicate_stdout_filters"),
            one("duplicate_stderr_filters"),
            no_such("min_nodes"),
            no_such("max_nodes"),
            no_such("num_nodes"),
            no_such("num_gpus"),
            no_such("gpus"),
            no_such("world_size"),
            no_such("nproc"),
        ],
        abbreviates: true,
        inline: false,
    },
    OptionTable {
        launchers: &[Launcher::Accelerate],
        options: &[
            one("num_machines"),
            one("num_processes"),
            one("machine_rank"),
            one("main_process_ip"),
            one("main_process_port"),
            flag("multi_gpu"),
            one("config_file"),
            one("rdzv_backend"),
            one("rdzv_conf"),
            one("max_restarts"),
            one("monitor_interval"),
            one("mixed_precision"),
            one("gpu_ids"),
            flag("same_network"),
            flag("use_deepspeed"),
            flag("use_fsdp"),
            flag("use_megatron_lm"),
            flag("cpu"),
            flag("tpu"),
            flag("debug"),
            flag("quiet"),
            flag("module"),
            flag("no_python"),
            flag("enable_cpu_affinity"),
            one("dynamo_backend"),
            one("dynamo_mode"),
            one("num_cpu_threads_per_process"),
            one("role"),
            one("log_dir"),
            one("tee"),
            one("deepspeed_config_file"),
            one("deepspeed_hostfile"),
            one("deepspeed_multinode_launcher"),
            one("deepspeed_exclusion_filter"),
            one("deepspeed_inclusion_filter"),
            one("zero_stage"),
            one("zero3_init_flag"),
            one("zero3_save_16bit_model"),
            one("offload_optimizer_device"),
            one("offload_param_device"),
            one("gradient_accumulation_steps"),
            one("gradient_clipping"),
            one("fsdp_sharding_strategy"),
            one("fsdp_auto_wrap_policy"),
            one("fsdp_transformer_layer_cls_to_wrap"),
            one("fsdp_state_dict_type"),
            one("fsdp_offload_params"),
            one("fsdp_backward_prefetch"),
            one("fsdp_use_orig_params"),
            one("fsdp_cpu_ram_efficient_loading"),
            one("fsdp_sync_module_states"),
            one("fsdp_activation_checkpointing"),
            one("fsdp_version"),
        ],
        abbreviates: false,
        inline: false,
    },
    OptionTable {
        launchers: &[Launcher::DeepSpeed],
        options: &[
            one("num_nodes"),
            one("num_gpus"),
            one("num_accelerators"),
            one("hostfile"),
            flag("no_ssh"),
            one("node_rank"),
            one("master_addr"),
            one("master_port"),
            one("include"),
            one("exclude"),
            one("min_elastic_nodes"),
            one("max_elastic_nodes"),
            one("launcher"),
            one("launcher_args"),
            flag("module"),
            flag("no_python"),
            flag("no_local_rank"),
            flag("no_ssh_check"),
            flag("force_multi"),
            one("save_pid"),
            one("enable_each_rank_log"),
            flag("elastic_training"),
            one("autotuning"),
            flag("bind_cores_to_rank"),
            one("bind_core_list"),
            one("ssh_port"),
            one("venv_script"),
        ],
        abbreviates: true,
        inline: false,
    },
    OptionTable {
        launchers: &[Launcher::Mpi],
        options: &[
            one("np"),
            one("n"),
            one("c"),
            one("N"),
            one("npernode"),
            one("ppn"),
            one("x"),
            one("genvlist"),
            one("bind_to"),
            one("map_by"),
            one("rank_by"),
            one("hostfile"),
            one("machinefile"),
            one("host"),
            one("H"),
            one("hosts"),
            one("f"),
            one("p"),
            one("wdir"),
            one("wd"),
            one("timeout"),
            one("prefix"),
            one("output_filename"),
            one("tune"),
            one("report_uri"),
            one("stdin"),
            one("launcher"),
            one("iface"),
            one("start_timeout"),
            one("network_interface"),
            two("mca"),
            two("gmca"),
            two("genv"),
            two("env"),
            flag("oversubscribe"),
            flag("nooversubscribe"),
            flag("allow_run_as_root"),
            flag("tag_output"),
            flag("timestamp_output"),
            flag("report_bindings"),
            flag("display_map"),
            flag("display_allocation"),
            flag("merge_stderr_to_stdout"),
            flag("mpi"),
            flag("gloo"),
            flag("verbose"),
            flag("v"),
            flag("q"),
            flag("bynode"),
            flag("byslot"),
            flag("use_hwthread_cpus"),
            flag("enable_recovery"),
            flag("disable_recovery"),
            flag("genvall"),
            flag("prepend_rank"),
            flag("l"),
        ],
        abbreviates: false,
        inline: true,
    },
    OptionTable {
        launchers: &[Launcher::Ray],
        options: &[
            one("address"),
            one("submission_id"),
            one("runtime_env"),
            one("runtime_env_json"),
            one("working_dir"),
            one("metadata_json"),
            one("entrypoint_num_cpus"),
            one("entrypoint_num_gpus"),
            one("entrypoint_memory"),
            one("entrypoint_resources"),
            one("verify"),
            one("headers"),
            one("log_style"),
            one("log_color"),
            flag("no_wait"),
            flag("verbose"),
        ],
        abbreviates: false,
        inline: false,
    },
];

/// Short names of options.
const SHORT: [(&str, &str, Launcher); 9] = [
    ("-m", "module", Launcher::Torchrun),
    ("-r", "redirects", Launcher::Torchrun),
    ("-t", "tee", Launcher::Torchrun),
    ("-m", "module", Launcher::Accelerate),
    ("-q", "quiet", Launcher::Accelerate),
    ("-H", "hostfile", Launcher::DeepSpeed),
    ("-i", "include", Launcher::DeepSpeed),
    ("-e", "exclude", Launcher::DeepSpeed),
    ("--process", "np", Launcher::Mpi),
];

impl OptionTable {
    /// Returns the option of a written name, with its dashes. Nothing for an unknown or ambiguous one.
    pub(super) fn find(&self, written: &str) -> Option<&'static LauncherOption> {
        let exact = |name: &str| self.options.iter().find(|known| known.name == name);
        let short = SHORT.iter().find(|(short, _, of)| *short == written && self.launchers.contains(of));
        if let Some((_, name, _)) = short {
            return exact(name);
        }
        let bare = match (written.strip_prefix("--"), written.strip_prefix('-')) {
            (Some(long), _) => long,
            // Open MPI's long options may have one dash.
            (None, Some(short)) if self.inline => short,
            _ => return None,
        };
        let name = bare.replace('-', "_");
        if let Some(known) = exact(&name) {
            return Some(known);
        }
        let mut begun = self.options.iter().filter(|known| known.exists && known.name.starts_with(&name));
        let first = begun.next().filter(|_| self.abbreviates && !name.is_empty())?;
        begun.next().is_none().then_some(first)
    }
}
