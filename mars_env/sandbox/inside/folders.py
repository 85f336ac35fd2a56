"""Measures and empties folders that a program can write to, without following links or recursing."""

import errno
import os

DEEPEST = 100  # nesting; a deeper one counts as too many files

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_HANDLE = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def write_file(path: str, content: bytes) -> None:
    with open(path, "wb") as file:
        file.write(content)


def open_folder(name: str, parent: int) -> int:
    """Open a folder to list and change it, even if its mode forbids that to its owner."""
    try:
        return os.open(name, _FOLDER, dir_fd=parent)
    except PermissionError:
        # Through a handle: a running program could replace the folder with a link to another file.
        handle = os.open(name, _HANDLE, dir_fd=parent)
        try:
            os.chmod(f"/proc/self/fd/{handle}", 0o700)
            return os.open(".", _FOLDER, dir_fd=handle)
        finally:
            os.close(handle)


def folder_usage(folder: str, limit: int) -> tuple[int, int]:
    """Bytes on disk and number of files and folders below a folder; stops soon after `limit` files."""
    size = files = 0
    frames = [(os.open(folder, _FOLDER), [""])]  # each level of the current path: folder, names to visit
    try:
        while frames and files <= limit:
            fd, names = frames[-1]
            if not names:
                os.close(fd)
                frames.pop()
                continue
            try:
                inner = open_folder(names.pop() or ".", fd)
            except OSError:
                continue  # it has just been removed
            frames.append((inner, found := []))
            with os.scandir(inner) as entries:
                for entry in entries:
                    try:
                        size += entry.stat(follow_symlinks=False).st_blocks * 512
                    except FileNotFoundError:
                        continue
                    files += 1
                    if entry.is_dir(follow_symlinks=False):
                        found.append(entry.name)
                    if files > limit:
                        break
            if len(frames) > DEEPEST:
                files = limit + 1
    finally:
        for fd, _ in frames:
            os.close(fd)
    return size, files


def remove(folder: str) -> None:
    try:
        os.rmdir(folder)
    except FileNotFoundError:
        return
    except OSError as error:
        if error.errno != errno.ENOTEMPTY:
            raise
        empty(folder)
        os.rmdir(folder)


def empty(folder: str) -> None:
    """Remove everything in a folder that no process uses any more.

    The folders inside a subfolder are moved up first, so however deep they are nested, only two are open.
    """
    top = os.open(folder, _FOLDER)
    moved = 0
    try:
        while names := _unlink_files(top):
            for name in names:
                fd = open_folder(name, top)
                try:
                    for inner in _unlink_files(fd):
                        moved = _move_up(inner, fd, top, moved)
                finally:
                    os.close(fd)
                os.rmdir(name, dir_fd=top)
    finally:
        os.close(top)


def _unlink_files(fd: int) -> list[str]:
    with os.scandir(fd) as entries:
        listed = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    writable = os.fstat(fd).st_mode & 0o300 == 0o300
    if listed and not writable:
        os.fchmod(fd, 0o700)
    for name, is_folder in listed:
        if not is_folder:
            os.unlink(name, dir_fd=fd)
    return [name for name, is_folder in listed if is_folder]


def _move_up(name: str, fd: int, top: int, moved: int) -> int:
    """Move a folder to the top folder, with a number as its new name; returns that number."""
    handle = os.open(name, _HANDLE, dir_fd=fd)
    try:
        if os.fstat(handle).st_mode & 0o700 != 0o700:  # moving a folder writes to it (its parent entry)
            os.chmod(f"/proc/self/fd/{handle}", 0o700)
    finally:
        os.close(handle)
    while True:
        moved += 1
        try:
            os.rename(name, f".{moved}", src_dir_fd=fd, dst_dir_fd=top)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):  # the program made one with that name
                raise
        else:
            return moved
