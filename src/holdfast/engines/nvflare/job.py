"""A job of NVFlare's: the controller on the server, a script of the user's on the sites."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from nvflare.fuel.utils.constants import FrameworkType
from nvflare.job_config.api import SPECIAL_CHARACTERS, FedJob
from nvflare.job_config.script_runner import ScriptRunner

from holdfast.checks import check_whole
from holdfast.engines.nvflare.arguments import check_flag, check_text
from holdfast.engines.nvflare.controller import RobustController
from holdfast.errors import BadInput

WHO, A_NAME = "make_job", "letters, digits, '.', '_' and '-', and begins with a letter or a digit"
FRAMEWORKS = {"numpy": FrameworkType.NUMPY, "torch": FrameworkType.PYTORCH}


def make_job(
    controller: RobustController,
    script: str,
    *,
    name: str = "holdfast",
    script_args: str = "",
    framework: str = "numpy",
    sites: Sequence[str] | None = None,
    min_sites: int | None = None,
    own_process: bool = False,
) -> FedJob:
    """Return a job: the controller on the server, and a script on every site.

    Parameters
    ----------
    controller : RobustController
        The controller.
    script : str
        The path of the script that trains and votes, by NVFlare's Client API.
    name : str
        The name of the job.
    script_args : str
        The arguments of the script.
    framework : str
        What the script gets as arrays: "numpy" or "torch". Between server and sites they are numpy's in any case.
    sites : sequence of str, optional
        The names of the sites. Without it, all that are connected.
    min_sites : int, optional
        With fewer sites alive, NVFlare ends the job. Without it, as many as the rule needs.
    own_process : bool
        Whether the script has a process of its own, so that one that ends or hangs does not take NVFlare's client with
        it.

    Returns
    -------
    nvflare.job_config.api.FedJob
        Its `simulator_run(workspace, n_clients=4)` runs it on this machine; `export_job(folder)` writes it for
        `nvflare job submit`.

    Raises
    ------
    BadInput
        If an argument is none of these.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from holdfast import MeanwO
    >>> from holdfast.engines.nvflare import RobustController, make_job
    >>> folder = tempfile.TemporaryDirectory()
    >>> script = Path(folder.name) / "site.py"
    >>> _ = script.write_text("import nvflare.client as flare")
    >>> make_job(RobustController(MeanwO(f=1), model={"w": np.zeros(3)}), str(script), name="digits").name
    'digits'
    >>> folder.cleanup()
    """
    if not isinstance(controller, RobustController):
        raise BadInput(f"{WHO} was given {type(controller).__name__}; it takes a RobustController.")
    if not isinstance(framework, str) or framework not in FRAMEWORKS:
        raise BadInput(f"{WHO} was given framework = {framework!r}; it is 'numpy' or 'torch'.")
    script = check_text(script, "script", WHO, what="the path of the script of the sites")
    if not Path(script).is_file():
        raise BadInput(f"{WHO} was given a script, and {script} is no file; name the script of the sites.")
    script_args = check_text(script_args, "script_args", WHO, what="one text, such as '--epochs 2'", empty=True)
    own_process = check_flag(own_process, "own_process", WHO)
    least = controller.least() if min_sites is None else check_whole(min_sites, "min_sites", least=1, who=WHO)
    if controller.model is None and not controller.persistor_id:
        raise BadInput(f"{WHO} was given a controller without a model; give it model= or persistor_id=.")
    names = _check_sites(sites)
    name = check_text(name, "name", WHO, what=A_NAME)
    try:
        job = FedJob(name=name, min_clients=least)
    except ValueError:
        raise BadInput(f"{WHO} was given name = {name!r}; name is {A_NAME}.") from None
    job.set_app_packages(["holdfast"])  # is installed on the server and not copied into the job
    job.to_server(controller)
    for site in names:
        runner = ScriptRunner(script, script_args, framework=FRAMEWORKS[framework], launch_external_process=own_process)
        if site is None:
            job.to_clients(runner)
        else:
            job.to(runner, site)
    return job


def _check_sites(sites: Sequence[str] | None) -> Sequence[str | None]:
    """The names of the sites, or None in the place of all that are connected."""
    if sites is None:
        return [None]
    wanted = "sites is a list of names, such as ['site-1', 'site-2'], or None for all that are connected"
    if isinstance(sites, str) or not isinstance(sites, Collection) or not sites:
        raise BadInput(f"{WHO} was given sites = {sites!r}; {wanted}.")
    for site in sites:
        if not isinstance(site, str) or set(site) & set(SPECIAL_CHARACTERS) or site in ("", "server"):
            raise BadInput(f"{WHO} was given {site!r} among the sites; {wanted}.")
    if len(set(sites)) < len(sites):
        raise BadInput(f"{WHO} was given a site twice; {wanted}.")
    return list(sites)
