package penstock;

import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.IOException;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.StandardCopyOption;
import java.util.Arrays;
import java.util.regex.Pattern;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.util.Progressable;

/**
 * Local files with no more than the promises of an object store: a file appears when it is closed; a rename copies file
 * by file, then deletes, and never replaces; nothing is appended to.
 *
 * The process that writes can die at a step: half of the file is there then, and each later step fails until
 * revive(). Steps are "put" (a file is closed), "copy" and "remove" (of a rename), and "delete". Janino compiles this:
 * no lambdas.
 */
public class ObjectStore extends RawLocalFileSystem {
    private static final URI NAME = URI.create("store:///");
    private static String lastStep = null;
    private static Pattern lastPath = null;
    private static boolean dead = false;

    /** Die at the next such step on a file or directory in whose path the regular expression is found. */
    public static synchronized void dieAt(String step, String path) {
        lastStep = step;
        lastPath = Pattern.compile(path);
    }

    /** Work again. Returns whether it had died. */
    public static synchronized boolean revive() {
        boolean was = dead;
        dead = false;
        lastStep = null;
        return was;
    }

    public URI getUri() {
        return NAME;
    }

    public String getScheme() {
        return "store";
    }

    public FSDataOutputStream create(Path path, boolean overwrite, int buffer, short copies, long block,
            Progressable progress) throws IOException {
        return open(path, overwrite);
    }

    public FSDataOutputStream create(Path path, FsPermission permission, boolean overwrite, int buffer, short copies,
            long block, Progressable progress) throws IOException {
        return open(path, overwrite);
    }

    public FSDataOutputStream append(Path path, int buffer, Progressable progress) throws IOException {
        throw new UnsupportedOperationException("append");
    }

    public boolean rename(Path source, Path target) throws IOException {
        File from = pathToFile(source), to = pathToFile(target);
        if (!from.exists() || to.exists() || !to.getParentFile().isDirectory()) {
            return false;
        }
        copy(from, to);
        remove("remove", from);
        return true;
    }

    public boolean delete(Path path, boolean recursive) throws IOException {
        File file = pathToFile(path);
        if (!file.exists()) {
            return false;
        }
        remove("delete", file);
        return true;
    }

    private FSDataOutputStream open(Path path, boolean overwrite) throws IOException {
        File file = pathToFile(path);
        if (file.isDirectory() || file.exists() && !overwrite) {
            throw new FileAlreadyExistsException(path + " exists");
        }
        return new FSDataOutputStream(new Upload(file), null);
    }

    private static void copy(File from, File to) throws IOException {
        File[] own = from.listFiles();
        if (own == null) {
            put("copy", to, Files.readAllBytes(from.toPath()));
            return;
        }
        to.mkdirs();
        Arrays.sort(own);
        for (int i = 0; i < own.length; i++) {
            copy(own[i], new File(to, own[i].getName()));
        }
    }

    private static void remove(String step, File file) throws IOException {
        File[] own = file.listFiles();
        if (own != null) {
            Arrays.sort(own);
            for (int i = 0; i < own.length; i++) {
                remove(step, own[i]);
            }
        }
        if (diesAt(step, file)) {
            throw died(step, file);
        }
        Files.deleteIfExists(file.toPath());
    }

    private static void put(String step, File file, byte[] data) throws IOException {
        boolean dies = diesAt(step, file);
        file.getParentFile().mkdirs();
        File aside = File.createTempFile(".upload-", "", file.getParentFile());
        Files.write(aside.toPath(), dies ? Arrays.copyOf(data, data.length / 2) : data);
        Files.move(aside.toPath(), file.toPath(), StandardCopyOption.REPLACE_EXISTING);
        if (dies) {
            throw died(step, file);
        }
    }

    /** Whether the process dies at this step, having begun it. Fails if it is dead already. */
    private static synchronized boolean diesAt(String step, File file) throws IOException {
        if (dead) {
            throw died("any step", file);
        }
        dead = step.equals(lastStep) && lastPath.matcher(file.getPath()).find();
        return dead;
    }

    private static IOException died(String step, File file) {
        return new IOException("the process died before the end of " + step + " " + file);
    }

    private static class Upload extends ByteArrayOutputStream {
        private final File file;
        private boolean open = true;

        Upload(File file) {
            this.file = file;
        }

        public void close() throws IOException {
            if (this.open) {
                this.open = false;
                put("put", this.file, this.toByteArray());
            }
        }
    }
}
