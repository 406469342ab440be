# SPDX-License-Identifier: BSD-2-Clause
"""What a guest boots: a stock kernel, and an initramfs of its modules and of programs.

Libraries are those of this machine, for which quench was built; the RDMA programs bring theirs.
"""
import lzma
import os
import re
import shutil
import stat
import subprocess
import zlib
from pathlib import Path
from typing import Iterator, NamedTuple

from debian import BACKPORTS, STABLE, Archive, Source, unpack

HERE = Path(__file__).resolve().parent
LIBRARIES = "usr/lib/x86_64-linux-gnu"

MODULES = (
    "virtio_pci virtio_net virtio_console veth tun bridge macvlan ifb "
    "rdma_rxe rdma_ucm ib_uverbs ib_umad rdma_cm crc32c_generic crc32_generic crc32_pclmul "
    "sch_plug sch_htb sch_tbf sch_fq sch_fq_codel sch_netem sch_prio sch_ingress "
    "cls_bpf cls_flower act_bpf"
).split()

RDMA_PACKAGES = (
    "ibverbs-utils rdmacm-utils ibverbs-providers perftest libibverbs1 librdmacm1 libibumad3 libpci3 "
    "libnl-3-200 libnl-route-3-200"
).split()

HOST_PROGRAMS = "dash ip tc rdma bpftool ss ethtool flock".split()
OPENED_AT_RUN_TIME = ("libgcc_s.so.1",)  # by pthread_exit, which rping calls


class Kernel(NamedTuple):
    """A stock kernel: how this file names it, its package and where that is."""

    name: str
    package: str
    source: Source
    stock: bool = False  # of the release that quench is for: must be had


KERNELS = (
    Kernel("6.1", "linux-image-amd64", STABLE, stock=True),
    Kernel("6.12", "linux-image-6.12-amd64", STABLE),
    Kernel("newest", "linux-image-amd64", BACKPORTS),
)


class Image(NamedTuple):
    kernel: Kernel
    release: str  # as uname -r says
    vmlinuz: Path
    initramfs: Path


# The archive format of an initramfs: Documentation/driver-api/early-userspace/buffer-format.rst


def cpio_entry(name: str, mode: int, number: int, data: bytes = b"") -> Iterator[bytes]:
    fields = (number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0)
    header = b"070701" + b"".join(b"%08X" % value for value in fields) + name.encode() + b"\0"
    yield header + bytes(-len(header) % 4)
    yield data + bytes(-len(data) % 4)


def cpio(root: Path, out: Path) -> None:
    with open(out, "wb") as archive:
        for number, path in enumerate(sorted(root.rglob("*")), 1):
            mode, data = path.lstat().st_mode, b""
            if stat.S_ISLNK(mode):
                data = os.readlink(path).encode()
            elif stat.S_ISREG(mode):
                data = path.read_bytes()
            archive.writelines(cpio_entry(str(path.relative_to(root)), mode, number, data))
        archive.writelines(cpio_entry("TRAILER!!!", 0, 0))


def pick_modules(tree: Path, release: str, home: Path) -> None:
    """MODULES and what they need, out of an unpacked kernel. Modules of a later kernel have other
    homes and may be compressed; those that it has built in, or does not have, are left out."""
    modules = next(path for path in (tree / "lib/modules", tree / "usr/lib/modules") if path.is_dir())
    if modules.parent.parent.name == "usr":  # where modprobe does not look
        (tree / "lib").mkdir(exist_ok=True)
        (tree / "lib/modules").symlink_to("../usr/lib/modules")
    if not (modules / release / "modules.dep").exists():
        subprocess.run(["depmod", "-b", tree, release], check=True)
    for module in MODULES:
        show = ["modprobe", "-d", tree, "-S", release, "--show-depends", module]
        for line in subprocess.run(show, capture_output=True, text=True).stdout.splitlines():
            if not line.startswith("insmod "):
                continue
            path = Path(line.split()[1])
            target = home / re.sub(r".*?/modules/[^/]+/", "", str(path))
            target.parent.mkdir(parents=True, exist_ok=True)
            if path.suffix == ".xz":
                target.with_suffix("").write_bytes(lzma.decompress(path.read_bytes()))
            else:
                shutil.copy(path, target)
    for name in ("modules.builtin", "modules.builtin.modinfo", "modules.order"):
        if (modules / release / name).exists():
            shutil.copy(modules / release / name, home)


def fetch_kernel(kernel: Kernel, cache: Path, scratch: Path) -> Path:
    """A directory of the cache with vmlinuz and modules/RELEASE of the kernel's newest packages. That
    is little of what they hold, so that they are not kept; nor is what was there of an older kernel."""
    archive = Archive(kernel.source, cache)
    archive.update()
    names = archive.with_dependencies(kernel.package, "linux-")
    contents = " ".join(sorted(path.name for path in archive.newest(names)) + list(MODULES))
    home = cache / "kernels" / f"{kernel.name}-{zlib.crc32(contents.encode()):08x}"
    if home.exists():
        return home
    for old in home.parent.glob(f"{kernel.name}-*"):
        shutil.rmtree(old)
    packages, tree = archive.fetch(names), scratch / f"kernel-{kernel.name}"
    unpack(packages, tree)
    release = next(path.name for path in tree.glob("**/lib/modules/*") if path.is_dir())
    part = home.with_name(f"part-{kernel.name}")
    shutil.rmtree(part, ignore_errors=True)
    pick_modules(tree, release, part / "modules" / release)
    shutil.copy(next(path for path in tree.glob("**/vmlinuz*") if path.is_file()), part / "vmlinuz")
    part.rename(home)
    shutil.rmtree(tree)
    for package in packages:
        package.unlink()
    return home


def install_busybox(root: Path) -> None:
    """Its applets, which give way to programs of the same name. The shell is dash: busybox's own
    runs its applets even where there is such a program."""
    busybox = shutil.which("busybox") or "/bin/busybox"
    shutil.copy(busybox, root / "bin/busybox")
    applets = subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True).stdout.split()
    for applet in applets:
        if applet not in ("busybox", "sh", *HOST_PROGRAMS):
            (root / "bin" / applet).symlink_to("busybox")
    (root / "bin/sh").symlink_to("dash")
    (root / "sbin/modprobe").symlink_to("/bin/busybox")  # where the kernel looks for it


def install_rdma(packages: list[Path], root: Path) -> None:
    """The RDMA programs; of the drivers, which are opened by name, only that of rxe."""
    unpacked = root / "rdma"
    unpack(packages, unpacked)
    shutil.rmtree(unpacked / "usr/share", ignore_errors=True)
    for part in ("lib", "usr", "etc"):
        if (unpacked / part).is_dir():
            shutil.copytree(unpacked / part, root / part, symlinks=True, dirs_exist_ok=True)
    shutil.rmtree(unpacked)
    for driver in root.glob("usr/lib/**/*-rdmav*.so"):
        if not driver.name.startswith("librxe"):
            driver.unlink()
    shutil.rmtree(root / "etc/libibverbs.d", ignore_errors=True)
    (root / "etc/libibverbs.d").mkdir(parents=True)
    (root / "etc/libibverbs.d/rxe.driver").write_text("driver rxe\n")


def install_libraries(root: Path) -> None:
    """All that the programs are linked with and do not bring."""
    home = root / LIBRARIES
    home.mkdir(parents=True, exist_ok=True)
    programs = [
        path for path in root.rglob("*")
        if path.is_file() and not path.is_symlink() and "modules" not in path.parts
        and (os.access(path, os.X_OK) or ".so" in path.name)
    ]  # fmt: skip
    environment = {**os.environ, "LD_LIBRARY_PATH": str(home)}
    listed = subprocess.run(["ldd", *programs], capture_output=True, text=True, env=environment).stdout
    libraries = set(re.findall(r"(/\S+\.so\S*)", listed)) | {f"/{LIBRARIES}/{n}" for n in OPENED_AT_RUN_TIME}
    for library in sorted(libraries):
        if library.startswith(str(root)) or not Path(library).exists():
            continue
        target = root / "lib64" if library.startswith("/lib64/") else home
        if not (target / Path(library).name).exists():
            shutil.copy(library, target)


def install_files(root: Path, programs: list[Path], data: dict[str, Path]) -> None:
    for name in HOST_PROGRAMS:
        path = shutil.which(name, path="/usr/sbin:/usr/bin:/sbin:/bin")
        if not path:
            raise FileNotFoundError(f"{name} is not installed")
        shutil.copy(path, root / "bin")
    for path in programs:
        shutil.copy(path, root / "bin")
    for place, path in data.items():
        shutil.copytree(path, root / place)
    shutil.copy(HERE / "init", root / "init")
    (root / "init").chmod(0o755)
    (root / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
    (root / "etc/hosts").write_text("127.0.0.1 localhost\n")


def make_root(root: Path) -> None:
    for name in "bin sbin etc proc sys dev tmp run root usr/lib usr/bin lib64".split():
        (root / name).mkdir(parents=True)
    (root / "lib").symlink_to("usr/lib")
    (root / "usr/sbin").symlink_to("bin")


def build(kernel: Kernel, cache: Path, scratch: Path, programs: list[Path], data: dict[str, Path]) -> Image:
    """Download what is not in the cache, and make the image in scratch: the programs in /bin,
    directories of data where their keys say."""
    stable = Archive(STABLE, cache)
    stable.update()
    picked = fetch_kernel(kernel, cache, scratch)
    release = next(path.name for path in (picked / "modules").iterdir())
    root, out = scratch / f"root-{kernel.name}", scratch / f"initramfs-{kernel.name}.cpio"
    make_root(root)
    install_busybox(root)
    install_files(root, programs, data)
    install_rdma(stable.fetch(RDMA_PACKAGES), root)
    install_libraries(root)
    shutil.copytree(picked / "modules", root / "usr/lib/modules")
    subprocess.run(["depmod", "-b", root, release], check=True, capture_output=True)
    cpio(root, out)
    shutil.rmtree(root)
    return Image(kernel, release, picked / "vmlinuz", out)
