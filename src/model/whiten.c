/* whiten.c - filters that whiten: eigenvectors of a symmetric matrix by cyclic Jacobi rotations,
 * from + - * / and square roots of float64 in one order, so their bits depend on no CPU and no
 * library. Sign and order are fixed, too. */
#include "plan.h"

/* Golub & Van Loan, Matrix Computations, 4th edition, section 8.5.2: the angle that makes a[p][q]
 * zero. Also turns the rows of `vector`. */
static void rotate(double a[DT_PATCH][DT_PATCH], double vector[DT_PATCH][DT_PATCH], int p, int q)
{
    const double tau = (a[q][q] - a[p][p]) / (2 * a[p][q]);
    const double root = sqrt(1 + tau * tau), t = tau < 0 ? -1 / (root - tau) : 1 / (tau + root);
    const double c = 1 / sqrt(1 + t * t), s = t * c;

    for (int k = 0; k < DT_PATCH; k++) { /* columns */
        const double x = a[k][p], y = a[k][q];
        a[k][p] = c * x - s * y;
        a[k][q] = s * x + c * y;
    }
    for (int k = 0; k < DT_PATCH; k++) { /* rows */
        const double x = a[p][k], y = a[q][k], u = vector[p][k], v = vector[q][k];
        a[p][k] = c * x - s * y;
        a[q][k] = s * x + c * y;
        vector[p][k] = c * u - s * v;
        vector[q][k] = s * u + c * v;
    }
    a[p][q] = a[q][p] = 0;
}

/* Row i of `vector` becomes an eigenvector of length 1, value[i] its eigenvalue. Rotations converge
 * quadratically: a matrix of 12 takes six sweeps, and ones of zeros change nothing. */
static void eigenvectors(double a[DT_PATCH][DT_PATCH], double value[DT_PATCH],
                         double vector[DT_PATCH][DT_PATCH])
{
    enum { SWEEPS = 16 };

    for (int i = 0; i < DT_PATCH; i++)
        for (int k = 0; k < DT_PATCH; k++)
            vector[i][k] = i == k;
    for (int sweep = 0; sweep < SWEEPS; sweep++)
        for (int p = 0; p < DT_PATCH; p++)
            for (int q = p + 1; q < DT_PATCH; q++)
                if (fabs(a[p][q]) > 0)
                    rotate(a, vector, p, q);
    for (int i = 0; i < DT_PATCH; i++)
        value[i] = a[i][i];
}

/* The place of eigenvalue i among all, the largest first; of equals the lower index. */
static int rank_of(const double value[DT_PATCH], int i)
{
    int rank = 0;

    for (int k = 0; k < DT_PATCH; k++)
        rank += value[k] > value[i] || (k < i && value[k] >= value[i]);
    return rank;
}

/* Its largest element, of equals the first, is positive. */
static double sign_of(const double vector[DT_PATCH])
{
    int largest = 0;

    for (int k = 1; k < DT_PATCH; k++)
        largest = fabs(vector[k]) > fabs(vector[largest]) ? k : largest;
    return vector[largest] < 0 ? -1 : 1;
}

/* The paper's section 3.2, see net_airbench.c; 5e-4 is the program's (init_whitening_conv). */
void dt_model_whiten(dt_model *m, double patches[DT_PATCH][DT_PATCH])
{
    const double least = 5e-4;
    double value[DT_PATCH], vector[DT_PATCH][DT_PATCH];
    float file[2][DT_PATCH][DT_PATCH];

    eigenvectors(patches, value, vector);
    for (int i = 0; i < DT_PATCH; i++) {
        const int at = rank_of(value, i);
        const double scale = sign_of(vector[i]) / sqrt(value[i] + least);
        for (int k = 0; k < DT_PATCH; k++) {
            file[0][at][k] = (float)(vector[i][k] * scale);
            file[1][at][k] = -file[0][at][k];
        }
    }
    dt_model_place(m, 0, &file[0][0][0]);
    dt_model_pack(m, 0, 1);
}
