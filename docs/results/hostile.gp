# Accuracy under attacks, from hostile.csv (fedmrn compare configs/grids/hostile.toml
# writes it as summary.csv). In this folder: gnuplot hostile.gp
set terminal svg noenhanced size 860,380 font "sans,12" background "white"
set output "hostile.svg"
set datafile separator ","
set style data histogram
set style histogram clustered gap 1.5
set style fill solid 0.9 border rgb "white"
set boxwidth 1
set yrange [0:100]
set ylabel "test accuracy after 15 rounds, %"
set grid ytics lc rgb "#dddddd"
set border 3
set xtics nomirror scale 0
set ytics nomirror
set key top center horizontal samplen 1 width 1
set title "20 % hostile clients, Fashion-MNIST IID, mean of two seeds (no bar: both diverged)"
rows(variant) = sprintf("< awk -F, '$2 == \"%s\"' hostile.csv", variant)
# A run that diverged has no accuracy.
percent(column) = strlen(strcol(column)) ? 100 * column(column) : NaN
plot rows("none") using (percent(6)):xtic(1) title "none" lc rgb "#9a9a9a", \
     rows("flip-20") using (percent(6)) title "flip" lc rgb "#e6a157", \
     rows("random-20") using (percent(6)) title "random" lc rgb "#6aa7d8", \
     rows("inflate-20") using (percent(6)) title "inflate" lc rgb "#c8503c", \
     rows("inflate-20-clipped") using (percent(6)) title "inflate, clip_norm 1" lc rgb "#4b9a68"
